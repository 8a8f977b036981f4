package judge

import "testing"

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

func TestACallerThatIsNotServedIsFoundOnce(t *testing.T) {
	fault := func(kind Kind, process int, at float64) func(h *trial) {
		return func(h *trial) {
			h.serves(0, 60)
			h.waits(1, 1)
			h.j.Take(Event{At: seconds(at), Kind: kind, Process: process, Life: 1})
		}
	}
	foundAt(t, "served", map[string]delay{
		"in a line":    {func(h *trial) { h.serves(0, 60); h.waits(1, 1) }, 9},
		"in an outage": {func(h *trial) { h.serves(0, 2); h.serves(12, 60); h.waits(1, 1) }, 20},

		"after another process was stopped": {fault(Stopped, 2, 6), 14},
		"after another process was killed":  {fault(Killed, 2, 6), 14},
		"after another process goes on":     {fault(Resumed, 2, 6), 14},
		"after another process has started": {fault(Started, 2, 6), 14},
		"no: its process is stopped":        {fault(Stopped, 1, 2), 0},
		"no: its process is killed":         {fault(Killed, 1, 2), 0},

		"by several locks, for twice as long": {func(h *trial) {
			h.serves(0, 60)
			for process := range 2 {
				h.by(1, process, "w", Event{Kind: Begin, Recipe: RecipeLockAll, Key: "all"})
			}
		}, 17},
		"by a queue, since an item is free": {func(h *trial) {
			h.serves(0, 60)
			h.by(1, 2, "c", Event{Kind: Begin, Recipe: RecipeTake, Key: "q"})
			h.put(1, 20, 20.1, "i1", nil)
			h.take(1, 20.2, 20.3, "i1", 1, 5)
			h.by(40, 1, "c", Event{Kind: Held, Recipe: RecipeTake, Key: "q", Item: "i1", From: seconds(20.3), Until: seconds(40)})
		}, 48},
		"by a barrier, since all are there": {func(h *trial) {
			h.serves(0, 60)
			h.comes(1, 1)
			h.comes(20, 2)
		}, 28},
		"by a double barrier, since all are there": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 0)
			h.entering(2, 20, 0)
		}, 28},
		"by a double barrier, since the other waits for it in Leave": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
			h.leaving(1, 20, 0)
		}, 28},
		"in Leave, since the other enters again": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 2.5)
			h.leaving(2, 3, 0)
			h.leaving(1, 3, 3.5)
			h.entering(1, 20, 0)
		}, 28},
		"no: in Leave, for one that is inside": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 2.5)
			h.leaving(2, 3, 0)
		}, 0},
		"no: in Leave, for one that is stopped in Enter": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
			h.leaving(1, 3, 0)
			h.by(2.2, 2, "", Event{Kind: Stopped})
		}, 0},
		"by a gate, since it is open": {func(h *trial) {
			h.serves(0, 60)
			h.turns(1, Closing)
			h.by(2, 2, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
			h.turns(20, Opened)
		}, 28},
	})
}

// With the bound of 8 s, nobody may wait for 32 s while others are served.
func TestACallerThatOthersOvertakeIsFound(t *testing.T) {
	foundAt(t, "served", map[string]delay{
		"in a line": {func(h *trial) { h.serves(0, 40); h.waits(1, 1); h.grants(1, 40) }, 33},
		"no: in a later session it is at the end of the line": {func(h *trial) {
			h.serves(0, 40)
			h.waits(1, 1)
			h.grants(1, 40)
			h.j.Take(Event{At: seconds(10), Kind: Expired, Process: 1, Life: 1})
		}, 0},
		"at a barrier": {func(h *trial) {
			h.serves(0, 40)
			h.comes(1, 3)
			for at := 1.0; at < 40; at++ {
				h.member(1, at, at+0.5, RecipeBarrier, "b", 0)
				h.member(2, at, at+0.5, RecipeBarrier, "b", 1)
			}
		}, 33},
		"at a gate": {func(h *trial) {
			h.serves(0, 40)
			h.by(1, 3, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
			for at := 1.0; at < 40; at++ {
				h.goesThrough(at, at+0.5)
			}
		}, 33},
	})
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
