package judge

import "testing"

// fails tells of an attempt at an item in a queue, or of a dead letter that is taken.
func (h *trial) fails(at float64, key string, attempt int, token int64, failures int) {
	h.by(at, 2, "c", Event{Kind: Granted, Recipe: RecipeTake, Key: key, Item: "i1", Attempt: attempt, Token: token, Failures: failures})
	h.by(at+0.1, 2, "c", Event{Kind: Held, Recipe: RecipeTake, Key: key, Item: "i1"})
}

func (h *trial) redrives(at float64, moved int, uncertain bool) {
	h.by(at, 1, "r", Event{Kind: Redriven, Key: "f", Moved: moved, Uncertain: uncertain})
}

func TestDeadLettersAreJudged(t *testing.T) {
	put := func(h *trial) {
		h.by(1, 1, "p", Event{Kind: Begin, Recipe: RecipePut, Key: "f" + PutSuffix, Item: "i1"})
		h.by(1.1, 1, "p", Event{Kind: Granted, Recipe: RecipePut, Key: "f" + PutSuffix, Item: "i1"})
	}
	judged(t, 9, map[string]story{
		"buried": {func(h *trial) {
			h.fails(2, "f", 1, 10, 0)
			h.fails(3, "f", 2, 11, 0)
			h.fails(4, "f-dead", 1, 12, 2)
			h.effect(5, "i1")
		}, nil},
		"redriven, and handled": {func(h *trial) {
			h.fails(2, "f", 2, 10, 0)
			h.redrives(3, 1, false)
			h.fails(4, "f", 1, 12, 0)
			h.effect(5, "i1")
		}, nil},
		"perhaps redriven": {func(h *trial) {
			h.fails(2, "f", 2, 10, 0)
			h.redrives(3, 0, true)
			h.fails(4, "f", 1, 12, 0)
			h.effect(5, "i1")
		}, nil},
		"a letter that was lost":          {func(h *trial) { h.fails(2, "f", 2, 10, 0) }, []string{"queue"}},
		"a letter that was there twice":   {func(h *trial) { h.effect(5, "i1"); h.effect(6, "i1") }, []string{"queue"}},
		"a letter too early":              {func(h *trial) { h.fails(2, "f-dead", 1, 12, 1); h.effect(5, "i1") }, []string{"letters"}},
		"an attempt too many":             {func(h *trial) { h.fails(2, "f", 3, 12, 0); h.effect(5, "i1") }, []string{"letters"}},
		"attempts of a letter, any many":  {func(h *trial) { h.fails(2, "f-dead", 9, 12, 2); h.effect(5, "i1") }, nil},
		"a letter that is redriven twice": {func(h *trial) { h.twice(); h.redrives(3, 1, false) }, []string{"letters"}},
		"anew without a redrive": {func(h *trial) {
			h.fails(2, "f", 2, 10, 0)
			h.fails(4, "f", 1, 12, 0)
			h.effect(5, "i1")
		}, []string{"letters"}},
	}, put)
}

// twice tells of an item that begins anew twice.
func (h *trial) twice() {
	h.fails(2, "f", 2, 10, 0)
	h.fails(3, "f", 1, 11, 0)
	h.fails(4, "f", 1, 12, 0)
	h.effect(5, "i1")
}
