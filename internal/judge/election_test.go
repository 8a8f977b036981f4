package judge

import "testing"

// elects tells of a leader that process 1, 2, .. was.
func (h *trial) elects(at float64, process int, token int64, holder string) {
	h.by(at, process, "c", Event{Kind: Granted, Recipe: RecipeElection, Key: "e", Token: token, Holder: holder})
}

func (h *trial) observes(at float64, process int, token int64, holder string) {
	h.by(at, process, "o", Event{Kind: Observed, Recipe: RecipeElection, Key: "e", Token: token, Holder: holder})
}

func (h *trial) beginsToObserve(at float64, process int) {
	h.by(at, process, "o", Event{Kind: Observing, Recipe: RecipeElection, Key: "e"})
}

// counts tells of an Add that returned value, and watches of a watcher that saw it.
func (h *trial) counts(at float64, process int, value int64) {
	h.by(at, process, "a", Event{Kind: Granted, Recipe: RecipeCounter, Key: "n", Token: value})
}

func (h *trial) watches(at float64, process int, value int64) {
	h.by(at, process, "w", Event{Kind: Observed, Recipe: RecipeCounter, Key: "n", Token: value})
}

func TestWhatAnElectionsObserversSeeIsJudged(t *testing.T) {
	judged(t, 9, map[string]story{
		"one leader after the other, and none": {func(h *trial) {
			h.elects(1, 1, 10, "a")
			h.observes(2, 3, 10, "a")
			h.observes(3, 3, 0, "")
			h.observes(4, 3, 11, "b")
			h.elects(5, 2, 11, "b") // it came to know later than the observer
		}, nil},
		"an older leader": {func(h *trial) { h.observes(1, 3, 11, "b"); h.observes(2, 3, 10, "a") }, []string{"election"}},
		"by two observers": {func(h *trial) {
			h.observes(1, 3, 11, "b")
			h.observes(2, 4, 10, "a")
		}, nil},
		"somebody else leads": {func(h *trial) { h.elects(1, 1, 10, "a"); h.observes(2, 3, 10, "b") }, []string{"election"}},
		"a counter's values": {func(h *trial) {
			h.counts(1, 1, 7)
			h.watches(2, 3, 7)
			h.watches(3, 3, 9) // it need not see each one
			h.counts(4, 2, 9)
			h.counts(5, 1, 8)
		}, nil},
		"a value twice":          {func(h *trial) { h.counts(1, 1, 7); h.counts(2, 2, 7) }, []string{"token"}},
		"a value before another": {func(h *trial) { h.watches(1, 3, 8); h.watches(2, 3, 7) }, []string{"counter"}},
		"two leaders, one token": {func(h *trial) { h.elects(1, 1, 10, "a"); h.elects(2, 2, 10, "b") }, []string{"token", "election"}},
	})
}

// A leader must have been seen 8 s after its election: the last one of these at 11.
func TestAnObserverThatMissesALeaderIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		tell          func(h *trial)
		before, finds []string
	}{
		"it has seen it":           {func(h *trial) { h.observes(4, 3, 11, "b") }, nil, nil},
		"it has seen the next one": {func(h *trial) { h.observes(4, 3, 12, "c") }, nil, nil},
		"it has seen one before":   {func(h *trial) { h.observes(4, 3, 10, "a") }, nil, []string{"election"}},
		"it has seen none":         {func(*trial) {}, []string{"election"}, []string{"election", "election"}},
		"its process was killed":   {func(h *trial) { h.by(4, 3, "", Event{Kind: Killed}) }, nil, nil},
		"its process has ended":    {func(h *trial) { h.by(4, 3, "", Event{Kind: Ended}) }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			h.serves(0, 30)
			h.beginsToObserve(0.5, 3)
			h.elects(1, 1, 10, "a")
			h.elects(3, 2, 11, "b")
			test.tell(h)
			h.j.JudgeUntil(seconds(11.1))
			h.j.Observers(seconds(10.9))
			h.finds(10.9, test.before...)
			h.j.Observers(seconds(11.1))
			h.finds(11.1, test.finds...)
		})
	}
}
