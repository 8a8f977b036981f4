package judge

import "testing"

func TestAWorkerThatHangsIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		last  Event
		finds []string
	}{
		"in a commit or a release":     {Event{Kind: Granted, Recipe: "lock", Key: "l"}, []string{"silent"}},
		"in a release, or a downgrade": {Event{Kind: Committed, Key: "l", Version: 1}, []string{"silent"}},
		"in the release of a reader":   {Event{Kind: Held, Recipe: "write", Key: "l"}, []string{"silent"}},
		"in an ack":                    {Event{Kind: Granted, Recipe: RecipeTake, Key: "q"}, []string{"silent"}},
		"in an open":                   {Event{Kind: Opening, Recipe: RecipeGate, Key: "g"}, []string{"silent"}},
		"before a leave":               {Event{Kind: Leaving, Recipe: RecipeDouble, Key: "d"}, []string{"silent"}},
		"no: it waits for an item":     {Event{Kind: Begin, Recipe: RecipeTake, Key: "q"}, nil},
		"no: it serves no item":        {Event{Kind: Held, Recipe: RecipeTake, Key: "q"}, nil},
		"no: nothing more is put":      {Event{Kind: Granted, Recipe: RecipePut, Key: "q" + PutSuffix}, nil},
		"no: the gate stays open":      {Event{Kind: Opened, Recipe: RecipeGate, Key: "g"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			h.serves(0, 20)
			h.by(1, 1, "w", test.last)
			h.silent(8.9)
			h.silent(9.1, test.finds...)
		})
	}
}

// silent requires that the judge finds violations of these rules, and no others, if no
// worker may be silent.
func (h *trial) silent(at float64, rules ...string) {
	h.t.Helper()
	h.j.JudgeUntil(seconds(at))
	h.j.Silent(seconds(at))
	h.finds(at, rules...)
}

func TestAProcessWhoseWorkersNeverReportIsFound(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 30)
	for process := range 4 { // the last two are gone
		h.by(1, process, "", Event{Kind: Started})
	}
	h.by(2, 3, "", Event{Kind: Ended})
	h.by(2, 1, "w", Event{Kind: Begin, Recipe: RecipeTake, Key: "q"})
	h.by(10, 2, "", Event{Kind: Killed})
	h.silent(17.9)
	h.silent(18.1, "silent")
}

func TestAFaultAndAnOutageExcuseSilence(t *testing.T) {
	t.Run("a fault of another process", func(t *testing.T) {
		h := newTrial(t)
		h.serves(0, 20)
		h.by(1, 1, "w", Event{Kind: Granted, Recipe: "lock", Key: "l"})
		h.by(6, 2, "", Event{Kind: Resumed})
		h.silent(13.9)
		h.silent(14.1, "silent")
	})
	t.Run("an outage", func(t *testing.T) {
		h := newTrial(t)
		h.by(1, 1, "w", Event{Kind: Granted, Recipe: "lock", Key: "l"})
		h.serves(0, 5)
		h.serves(15, 30)
		h.silent(14.9)
		h.silent(22.9)
		h.silent(23.1, "silent")
	})
}
