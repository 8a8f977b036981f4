package judge

import "testing"

// loses tells of a loss: what was done from 10 to 15 s on is in doubt, and the ensemble comes back at 17 s.
func (h *trial) loses() {
	h.serves(0, 14)
	h.j.Take(Event{At: seconds(15), Kind: Lost, From: seconds(10)})
}

// ackOf tells of an ack of the claim with a token, and of its effect, if it is seen.
func (h *trial) ackOf(at float64, item string, token int64, seen bool) {
	h.by(at, 2, "c", Event{Kind: Acked, Recipe: RecipeTake, Key: "q", Item: item, Token: token})
	if seen {
		h.effectOf(at+0.1, item, token)
	}
}

func (h *trial) effectOf(at float64, item string, token int64) {
	h.j.Take(Event{At: seconds(at), Kind: Effect, Recipe: RecipeTake, Key: "done", Item: item, Token: token})
}

func (h *trial) passes(at float64, process, index int) {
	h.by(at, process, "b", Event{Kind: Granted, Recipe: RecipeBarrier, Key: "b", Index: index})
}

func (h *trial) comes(at float64, process int) {
	h.by(at, process, "b", Event{Kind: Begin, Recipe: RecipeBarrier, Key: "b"})
}

func (h *trial) turns(at float64, kind Kind) {
	h.by(at, 1, "o", Event{Kind: kind, Recipe: RecipeGate, Key: "g"})
}

func (h *trial) goesThrough(from, at float64) {
	h.by(from, 2, "g", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
	h.by(at, 2, "g", Event{Kind: Granted, Recipe: RecipeGate, Key: "g"})
}

func TestALossExcusesWhatItTookBackAndNothingElse(t *testing.T) {
	judged(t, 21, map[string]story{
		"a grant that was lost, believed for a timeout": {func(h *trial) {
			h.hold(1, 12, 18.9, 10, false)
			h.hold(2, 18, 20, 11, false)
		}, nil},
		"a grant that was lost, believed for longer": {func(h *trial) {
			h.hold(1, 12, 19.1, 10, false)
			h.hold(2, 18, 20, 11, false)
		}, []string{"exclusion"}},
		"a grant from before": {func(h *trial) {
			h.hold(1, 9, 18.5, 10, false)
			h.hold(2, 18, 20, 11, false)
		}, []string{"exclusion"}},
		"two grants that were lost": {func(h *trial) {
			h.hold(1, 12, 14, 10, false)
			h.hold(2, 13, 14, 11, false)
		}, []string{"exclusion"}},
		"two grants of afterwards": {func(h *trial) {
			h.hold(1, 17, 18.5, 10, false)
			h.hold(2, 18, 19, 11, false)
		}, []string{"exclusion"}},
		"a token that was lost":       {func(h *trial) { h.hold(1, 12, 13, 10, false); h.hold(2, 18, 19, 10, false) }, nil},
		"a token from before":         {func(h *trial) { h.hold(1, 8, 9, 10, false); h.hold(2, 18, 19, 10, false) }, []string{"token"}},
		"a lower token than was lost": {func(h *trial) { h.hold(1, 12, 13, 10, false); h.hold(2, 18, 19, 9, false) }, nil},
		"a lower token than before":   {func(h *trial) { h.hold(1, 8, 9, 10, false); h.hold(2, 18, 19, 9, false) }, []string{"token"}},

		"a commit that was lost": {func(h *trial) {
			h.commit(9, 1, 10, 100, 0, 1)
			h.commit(12, 1, 10, 101, 1, 2)
			h.commit(18, 2, 11, 101, 1, 2)
			h.j.JudgeUntil(seconds(19))
			h.j.Commits(Event{At: seconds(19), Key: "l", Version: 2}, 0)
		}, nil},
		"a commit from before": {func(h *trial) {
			h.commit(8, 1, 10, 100, 0, 1)
			h.commit(9, 1, 10, 101, 1, 2)
			h.commit(18, 2, 11, 102, 0, 1)
		}, []string{"commit"}},
		"a version that was read in vain": {func(h *trial) {
			h.by(18, 1, "w", Event{Kind: Committed, Key: "l", Token: 10, Zxid: 100, From: seconds(12), Was: 5, Version: 3})
		}, nil},
		"a version that was read before": {func(h *trial) {
			h.by(18, 1, "w", Event{Kind: Committed, Key: "l", Token: 10, Zxid: 100, From: seconds(9), Was: 5, Version: 3})
		}, []string{"commit"}},
		"an error after a read in vain": {func(h *trial) {
			h.by(18, 1, "r", Event{Kind: Strange, Key: "l", From: seconds(12), Err: "bad version"})
		}, nil},
		"an error, whatever was read": {func(h *trial) {
			h.by(18, 1, "r", Event{Kind: Strange, Key: "l", Err: "evicted"})
		}, []string{"error"}},

		"an item whose put was lost":      {func(h *trial) { h.put(1, 11, 12, "i1", nil) }, nil},
		"an item that was put before":     {func(h *trial) { h.put(1, 8, 9, "i1", nil) }, []string{"queue"}},
		"an item that was put afterwards": {func(h *trial) { h.put(1, 14, 17.5, "i1", nil) }, []string{"queue"}},
		"an ack that was lost": {func(h *trial) {
			h.put(1, 8, 9, "i1", nil)
			h.take(2, 11, 11.1, "i1", 1, 20)
			h.ackOf(12, "i1", 20, true)
			h.take(2, 18, 18.1, "i1", 1, 20)
			h.ackOf(19, "i1", 20, true)
		}, nil},
		"an ack that was lost before its effect was seen": {func(h *trial) {
			h.put(1, 8, 9, "i1", nil)
			h.take(2, 11, 11.1, "i1", 1, 20)
			h.ackOf(12, "i1", 20, false)
			h.take(2, 18, 18.1, "i1", 1, 30)
			h.ackOf(19, "i1", 30, true)
		}, nil},
		"an ack that was not lost": {func(h *trial) {
			h.put(1, 8, 9, "i1", nil)
			h.ackOf(12, "i1", 20, false)
			h.effectOf(18, "i1", 20)
		}, nil},
		"an ack from before": {func(h *trial) {
			h.put(1, 7, 8, "i1", nil)
			h.ackOf(9, "i1", 20, true)
			h.effectOf(18, "i1", 30)
		}, []string{"queue"}},
		"two acks of afterwards": {func(h *trial) {
			h.put(1, 11, 12, "i1", nil)
			h.effectOf(18, "i1", 30)
			h.effectOf(19, "i1", 31)
		}, []string{"queue"}},
		"an ack of afterwards that only another one's effect follows": {func(h *trial) {
			h.put(1, 8, 9, "i1", nil)
			h.take(2, 11, 11.1, "i1", 1, 20)
			h.ackOf(18, "i1", 20, false)
			h.effectOf(19, "i1", 30)
		}, []string{"queue"}},

		"members that passed and may be back": {func(h *trial) {
			h.comes(11, 1)
			h.comes(11, 2)
			h.passes(12, 1, 0)
			h.passes(12, 2, 1)
			h.comes(18, 1)
			h.passes(18.1, 1, 0)
		}, nil},
		"members that passed before": {func(h *trial) {
			h.comes(8, 1)
			h.comes(8, 2)
			h.passes(9, 1, 0)
			h.passes(9, 2, 1)
			h.comes(18, 1)
			h.passes(18.1, 1, 0)
		}, []string{"barrier"}},

		"a gate that was shut in vain": {func(h *trial) { h.turns(12, Shut); h.goesThrough(18, 19) }, nil},
		"a gate that was shut before":  {func(h *trial) { h.turns(9, Shut); h.goesThrough(18, 19) }, []string{"gate"}},

		"a leader that was lost": {func(h *trial) { h.observes(12, 1, 11, "a"); h.observes(18, 1, 10, "b") }, nil},
		"a leader from before":   {func(h *trial) { h.elects(9, 2, 11, "a"); h.elects(18, 3, 11, "b") }, []string{"token", "election"}},
	}, (*trial).loses)
}

func TestAfterALossEachProcessMustBeServedAgainInTime(t *testing.T) {
	for name, test := range map[string]struct {
		refused bool
		until   float64 // from 20 on, when the ensemble comes back
		serves  func(h *trial)
		finds   []string
	}{
		"both processes":         {false, 29, func(h *trial) { h.hold(1, 21, 22, 20, false); h.hold(2, 23, 24, 21, false) }, nil},
		"one of them":            {false, 29, func(h *trial) { h.hold(1, 21, 22, 20, false) }, []string{RuleLost}},
		"not yet":                {false, 27, func(h *trial) {}, nil},
		"none of them":           {false, 29, func(h *trial) {}, []string{RuleLost, RuleLost}},
		"refused at first":       {true, 35, func(h *trial) {}, nil},
		"refused, and no longer": {true, 37, func(h *trial) {}, []string{RuleLost, RuleLost}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			h.j.cfg.Steady = []string{"l"}
			h.serves(0, 14)
			h.hold(1, 1, 2, 10, false)
			h.hold(2, 3, 4, 11, false)
			h.j.Take(Event{At: seconds(15), Kind: Lost, From: seconds(10), Refused: test.refused})
			h.serves(20, 40)
			test.serves(h)
			h.finds(test.until, test.finds...)
		})
	}
}
