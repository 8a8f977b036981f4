package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const timeout = 4 * time.Second

// trial is a history that a test tells a Judge. All times are in seconds.
type trial struct {
	t *testing.T
	j *Judge
}

func newTrial(t *testing.T) *trial {
	return &trial{t: t, j: New(Config{
		Timeout: timeout, Slack: 2 * time.Second,
		Members: map[string]int{"b": 2, "d": 2},
		Slots:   map[string]int{"s": 2}, Chains: map[string]int{"all": 2},
		Queues: map[string]DeadLetters{"f": {Key: "f-dead", Attempts: 2}},
	})}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// by tells of an event of a process's worker.
func (h *trial) by(at float64, process int, worker string, e Event) {
	e.At, e.Process, e.Life, e.Worker = seconds(at), process, 1, worker
	h.j.Take(e)
}

// story is what a Judge is told, and the rules of the violations that it must find.
type story struct {
	tell  func(h *trial)
	finds []string
}

// judged tells each story, after what happens in all of them, to a Judge of its own, which judges until
// a moment. Nothing is in a queue then.
func judged(t *testing.T, until float64, stories map[string]story, before ...func(h *trial)) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			for _, tell := range append(before, s.tell) {
				tell(h)
			}
			h.j.JudgeUntil(seconds(until))
			h.j.Drained(seconds(until))
			h.finds(until, s.finds...)
		})
	}
}

// delay is what a Judge is told, and when it must find that somebody is not served; 0: never.
type delay struct {
	tell  func(h *trial)
	found float64
}

// foundAt tells each of the delays to a Judge of its own, which finds it then, and once.
func foundAt(t *testing.T, rule string, delays map[string]delay) {
	for name, d := range delays {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			d.tell(h)
			for at := 1.0; at < 60 && (at < d.found || d.found == 0); at++ {
				h.finds(at)
			}
			if d.found > 0 {
				h.finds(d.found - 0.1)
				h.finds(d.found+0.1, rule)
				h.finds(60, rule)
			}
		})
	}
}

// hold tells of a lock that process 1, 2, .. got and gave back.
func (h *trial) hold(process int, from, until float64, token int64, shared bool) {
	worker := map[bool]string{false: "w", true: "r"}[shared]
	h.by(from-0.01, process, worker, Event{Kind: Begin, Recipe: "lock", Key: "l"})
	h.by(from, process, worker, Event{Kind: Granted, Recipe: "lock", Key: "l", Token: token, Shared: shared})
	h.by(until+0.01, process, worker, Event{
		Kind: Held, Recipe: "lock", Key: "l", Token: token, Shared: shared, Server: "s1", From: seconds(from), Until: seconds(until),
	})
}

// serves tells of an ensemble that carries out plain writes throughout.
func (h *trial) serves(from, until float64) {
	for at := from; at <= until; at += 0.5 {
		h.j.Take(Event{At: seconds(at), Kind: Wrote})
	}
}

// finds requires that the judge finds violations of these rules, and no others.
func (h *trial) finds(until float64, rules ...string) {
	h.t.Helper()
	h.j.JudgeUntil(seconds(until))
	var found []string
	for _, v := range h.j.Violations() {
		h.t.Log(v.Rule, v.Text)
		found = append(found, v.Rule)
	}
	require.Equal(h.t, rules, found)
}

func TestAFairHistoryHasNoViolations(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 9)
	h.hold(1, 1, 2, 10, false)
	h.hold(2, 2.1, 3, 11, false)
	h.hold(1, 3.1, 4, 12, true)
	h.hold(2, 3.2, 4, 13, true)
	h.put(1, 4, 4.1, "i1", nil)
	h.take(2, 4.2, 4.3, "i1", 1, 20)
	h.ack(2, 4.4, "i1")
	h.j.Drained(seconds(9))
	h.finds(9)
	gap := h.j.Gaps()["l"]
	require.Equal(t, 4, gap.Grants)
	require.Equal(t, seconds(0.01), gap.Longest.Round(time.Millisecond))
	require.Equal(t, seconds(0.5), h.j.Outage())
	h.serves(19, 19)
	h.finds(19)
	require.Equal(t, seconds(10), h.j.Outage())
}

func TestHoldsThatOverlapAreFound(t *testing.T) {
	holds := func(shared1, shared2 bool) func(h *trial) {
		return func(h *trial) {
			h.hold(1, 1, 3, 10, shared1)
			h.hold(2, 2.5, 4, 11, shared2)
		}
	}
	judged(t, 5, map[string]story{
		"two writers":           {holds(false, false), []string{"exclusion"}},
		"a reader and a writer": {holds(true, false), []string{"exclusion"}},
		"a writer and a reader": {holds(false, true), []string{"exclusion"}},
		"two readers":           {holds(true, true), nil},
	})
}

func TestAHoldThatIsReportedLateIsCompared(t *testing.T) {
	h := newTrial(t)
	h.hold(2, 2.5, 4, 11, false)
	h.finds(20)
	h.by(21, 1, "w", Event{Kind: Held, Key: "l", Token: 10, From: seconds(1), Until: seconds(3)})
	h.finds(22, "exclusion")
}

func TestOnlyAHolderBehindAServerThatIsCutOffIsExcused(t *testing.T) {
	holds := func(cutOff string) func(h *trial) {
		return func(h *trial) {
			h.j.Take(Event{At: seconds(0.5), Kind: Cut, Server: cutOff})
			h.hold(1, 0.2, 6, 10, false)
			h.hold(2, 5, 7, 11, false)
		}
	}
	// The holder that has lost its session is the one with the lower token, even if it notices
	// its grant after the next one has begun.
	late := func(wasCutOff string) func(h *trial) {
		return func(h *trial) {
			h.j.Take(Event{At: seconds(0.5), Kind: Cut, Server: wasCutOff})
			h.j.Take(Event{At: seconds(1.5), Kind: Healed, Server: wasCutOff})
			h.by(3, 2, "w", Event{Kind: Held, Key: "l", Token: 11, Server: "s2", From: seconds(2), Until: seconds(3)})
			h.by(3, 1, "w", Event{Kind: Held, Key: "l", Token: 10, Server: "s1", From: seconds(2.5), Until: seconds(2.6)})
		}
	}
	judged(t, 12, map[string]story{
		"its server":                              {holds("s1"), nil},
		"another server":                          {holds("s2"), []string{"exclusion"}},
		"its server was, and it noticed late":     {late("s1"), nil},
		"the next one's was, and it noticed late": {late("s2"), []string{"exclusion"}},
		"its server was, but long ago": {func(h *trial) {
			h.j.Take(Event{At: seconds(0.5), Kind: Cut, Server: "s1"})
			h.j.Take(Event{At: seconds(0.6), Kind: Healed, Server: "s1"})
			h.hold(1, 8, 10, 10, false)
			h.hold(2, 9, 11, 11, false)
		}, []string{"exclusion"}},
	})
}

func (h *trial) commit(at float64, process int, token, zxid int64, was, version int32) {
	h.by(at, process, "w", Event{Kind: Committed, Key: "l", Token: token, Zxid: zxid, Was: was, Version: version})
}

// reads tells of a commit of a reader.
func (h *trial) reads(at float64, token, zxid int64, version int32) {
	h.by(at, 3, "r", Event{Kind: Committed, Key: "l", Token: token, Shared: true, Zxid: zxid, Was: version - 1, Version: version})
}

func TestFencedCommitsAreComparedByZxidAndToken(t *testing.T) {
	judged(t, 5, map[string]story{
		"in order": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.commit(3, 2, 11, 102, 2, 3)
			h.commit(4, 1, 10, 101, 1, 2) // reported late
		}, nil},
		"an old token": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.commit(2, 2, 12, 101, 1, 2)
			h.commit(3, 1, 10, 102, 2, 3)
		}, []string{"token"}},
		"readers have no order": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.reads(2, 12, 101, 2)
			h.reads(3, 11, 102, 3)
			h.commit(4, 1, 13, 103, 3, 4)
		}, nil},
		"a reader with an old token": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.reads(2, 11, 101, 2)
			h.reads(3, 9, 102, 3)
		}, []string{"token"}},
		"a writer older than a reader": {func(h *trial) {
			h.reads(1, 12, 100, 1)
			h.reads(2, 10, 101, 2)
			h.commit(3, 1, 11, 102, 2, 3)
		}, []string{"token"}},
		"somebody wrote in between": {func(h *trial) { h.commit(1, 1, 10, 100, 0, 2) }, []string{"commit"}},
		"a token twice":             {func(h *trial) { h.hold(1, 1, 2, 10, false); h.hold(2, 3, 4, 10, false) }, []string{"token"}},
		"one is lost": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.commit(2, 1, 10, 101, 1, 2)
			h.finds(3)
			h.j.Commits(Event{At: seconds(5), Key: "l", Version: 1}, 9)
		}, []string{"commit"}},
		"nobody knows of one": {func(h *trial) {
			h.commit(1, 1, 10, 100, 0, 1)
			h.by(2, 2, "w", Event{Kind: Doubted, Key: "l"})
			h.finds(3)
			h.j.Commits(Event{At: seconds(5), Key: "l", Version: 2}, 0)
			h.finds(4)
			h.j.Commits(Event{At: seconds(5), Key: "l", Version: 3}, 0)
		}, []string{"commit"}},
	})
}

// put tells of a Put that returned err, or is never seen to return if until is 0.
func (h *trial) put(process int, from, until float64, item string, failed *Event) {
	h.by(from, process, "p", Event{Kind: Begin, Recipe: RecipePut, Key: "q" + PutSuffix, Item: item})
	e := Event{Kind: Granted}
	if failed != nil {
		e = *failed
	}
	e.Recipe, e.Key, e.Item = RecipePut, "q"+PutSuffix, item
	if until > 0 {
		h.by(until, process, "p", e)
	}
}

func (h *trial) take(process int, from, at float64, item string, attempt int, token int64) {
	h.by(from, process, "c", Event{Kind: Begin, Recipe: RecipeTake, Key: "q"})
	h.by(at, process, "c", Event{Kind: Granted, Recipe: RecipeTake, Key: "q", Item: item, Attempt: attempt, Token: token})
}

// ack tells of an ack, and of its effect.
func (h *trial) ack(process int, at float64, item string) {
	h.by(at, process, "c", Event{Kind: Acked, Recipe: RecipeTake, Key: "q", Item: item})
	h.effect(at+0.1, item)
}

func (h *trial) effect(at float64, item string) {
	h.j.Take(Event{At: seconds(at), Kind: Effect, Recipe: RecipeTake, Key: "q", Item: item})
}

func TestItemsAreCounted(t *testing.T) {
	uncertain, refused := &Event{Kind: Failed, Uncertain: true}, &Event{Kind: Failed}
	judged(t, 5, map[string]story{
		"lost": {func(h *trial) { h.put(1, 1, 1.1, "i1", nil) }, []string{"queue"}},
		"acked without effect": {func(h *trial) {
			h.put(1, 1, 0, "i1", nil)
			h.by(2, 2, "c", Event{Kind: Acked, Recipe: RecipeTake, Key: "q", Item: "i1"})
		}, []string{"queue"}},
		"acked twice": {func(h *trial) {
			h.put(1, 1, 1.1, "i1", nil)
			h.effect(2, "i1")
			h.effect(3, "i1")
		}, []string{"queue"}},
		"acked twice, and its put unknown": {func(h *trial) {
			h.put(1, 1, 1.1, "i1", uncertain)
			h.effect(2, "i1")
			h.effect(3, "i1")
		}, []string{"queue"}},
		"acked before the put was known": {func(h *trial) {
			h.put(1, 1, 1.9, "i1", nil)
			h.effect(1.5, "i1")
		}, nil},
		"uncertain, and there":     {func(h *trial) { h.put(1, 1, 1.1, "i1", uncertain); h.effect(2, "i1") }, nil},
		"uncertain, and not there": {func(h *trial) { h.put(1, 1, 1.1, "i1", uncertain) }, nil},
		"refused, and there":       {func(h *trial) { h.put(1, 1, 1.1, "i1", refused); h.effect(2, "i1") }, []string{"queue"}},
		"put by a dead process":    {func(h *trial) { h.put(1, 1, 0, "i1", nil); h.effect(2, "i1") }, nil},
		"never put":                {func(h *trial) { h.effect(2, "i1") }, []string{"queue"}},
		"delivered with an old token": {func(h *trial) {
			h.put(1, 1, 1.1, "i1", nil)
			h.take(1, 2, 2.1, "i1", 1, 7)
			h.take(2, 3, 3.1, "i1", 2, 6)
			h.effect(4, "i1")
		}, []string{"queue"}},
		"delivered to two": {func(h *trial) {
			h.put(1, 1, 1.1, "i1", nil)
			h.by(3, 1, "c", Event{Kind: Held, Key: "q", Item: "i1", From: seconds(1.5), Until: seconds(2.5)})
			h.by(3, 2, "c", Event{Kind: Held, Key: "q", Item: "i1", From: seconds(2), Until: seconds(3)})
			h.effect(4, "i1")
		}, []string{"exclusion"}},
	})
}
