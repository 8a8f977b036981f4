package judge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// With a session timeout of 4 s and a slack of 2 s, somebody must be served within 8 s.

func (h *trial) waits(at float64, process int) {
	h.by(at, process, "w", Event{Kind: Begin, Recipe: "lock", Key: "l"})
}

// grants tells of locks that process 2 is granted, one after the other.
func (h *trial) grants(from, until float64) {
	for at := from; at < until; at++ {
		h.hold(2, at, at+0.5, int64(at*10), false)
	}
}

func TestAStarvedLineIsFoundOnce(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 30)
	h.waits(1, 1)
	h.finds(8.9)
	h.finds(9.1, "served")
	h.finds(30, "served")
}

// Two callers ask in turn, so that one always waits.
func TestACallThatIsAnsweredThatThereIsNothingIsNotStarved(t *testing.T) {
	redrives := func(err string) *trial {
		h := newTrial(t)
		h.serves(0, 30)
		for at := 1.0; at < 29; at++ {
			e := Event{Kind: Begin, Recipe: RecipeRedrive, Key: "q" + RedriveSuffix}
			h.by(at, 1+int(at)%2, "w", e)
			e.Kind, e.Err = Failed, err
			h.by(at+1.5, 1+int(at)%2, "w", e)
		}
		return h
	}
	redrives(NoLetters).finds(28)
	redrives("refused").finds(28, "served")
}

func TestAStarvedWaiterIsFound(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 40)
	h.waits(1, 1)
	h.grants(1, 40)
	h.finds(32)
	h.finds(34, "served")
}

func TestAWaiterInALaterSessionIsAtTheEndOfTheLine(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 40)
	h.waits(1, 1)
	h.grants(1, 40)
	h.j.Take(Event{At: seconds(10), Kind: Expired, Process: 1, Life: 1})
	h.finds(40)
}

func TestAnOutageExcusesAGapAndNoMore(t *testing.T) {
	h := newTrial(t)
	h.waits(1, 1)
	h.serves(0, 2)
	h.serves(12, 30)
	h.finds(11)
	h.finds(19.9)
	h.finds(20.1, "served")
	require.Equal(t, seconds(10), h.j.Outage())
}

func TestAFaultOfAProcessExcusesAGapAndNoMore(t *testing.T) {
	for _, kind := range []Kind{Stopped, Killed, Resumed, Started} {
		h := newTrial(t)
		h.serves(0, 30)
		h.waits(1, 1)
		h.j.Take(Event{At: seconds(6), Kind: kind, Process: 2, Life: 1})
		h.finds(13.9)
		h.finds(14.1, "served")
	}
}

func TestProcessesThatDoNotRunDoNotWait(t *testing.T) {
	for _, kind := range []Kind{Stopped, Killed} {
		h := newTrial(t)
		h.serves(0, 30)
		h.waits(1, 1)
		h.j.Take(Event{At: seconds(2), Kind: kind, Process: 1, Life: 1})
		h.finds(29)
	}
}

func TestConsumersWaitOnlyForItemsThatAreFree(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 60)
	h.by(1, 2, "c", Event{Kind: Begin, Recipe: RecipeTake, Key: "q"})
	h.finds(19)
	h.put(1, 20, 20.1, "i1", nil)
	h.take(1, 20.2, 20.3, "i1", 1, 5)
	h.finds(39)
	h.by(40, 1, "c", Event{Kind: Held, Recipe: RecipeTake, Key: "q", Item: "i1", From: seconds(20.3), Until: seconds(40)})
	h.finds(47.9)
	h.finds(48.1, "served")
}

func TestABarrierIsWaitedForOnceAllAreThere(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 60)
	h.by(1, 1, "m", Event{Kind: Begin, Recipe: RecipeBarrier, Key: "b"})
	h.finds(19)
	h.by(20, 2, "m", Event{Kind: Begin, Recipe: RecipeBarrier, Key: "b"})
	h.finds(27.9)
	h.finds(28.1, "served")
}

// With the bound of 8 s, nobody may wait for 32 s while others are served.

func TestABarriersWaiterThatIsNotWokenIsFound(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 40)
	h.by(1, 3, "m", Event{Kind: Begin, Recipe: RecipeBarrier, Key: "b"})
	for at := 1.0; at < 40; at++ {
		h.member(1, at, at+0.5, RecipeBarrier, "b", 0)
		h.member(2, at, at+0.5, RecipeBarrier, "b", 1)
	}
	for at := 1.2; at < 33; at++ {
		h.finds(at)
	}
	h.finds(33.2, "served")
}

func TestAGatesWaiterThatIsNotWokenIsFound(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 40)
	h.by(1, 3, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
	for at := 1.0; at < 40; at++ {
		h.by(at, 1, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
		h.by(at+0.5, 1, "w", Event{Kind: Granted, Recipe: RecipeGate, Key: "g"})
	}
	for at := 1.2; at < 33; at++ {
		h.finds(at)
	}
	h.finds(33.2, "served")
}
