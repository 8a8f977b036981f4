package judge

import "testing"

// member tells of a call of a barrier of two. It is never seen to return if until is 0.
func (h *trial) member(process int, from, until float64, recipe, key string, index int) {
	h.by(from, process, "m", Event{Kind: Begin, Recipe: recipe, Key: key})
	if until > 0 {
		h.by(until, process, "m", Event{Kind: Granted, Recipe: recipe, Key: key, Index: index})
	}
}

func TestABarrierThatOpensEarlyIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		tell  func(h *trial)
		finds []string
	}{
		"in time": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 1)
		}, nil},
		"alone": {func(h *trial) { h.member(1, 1, 3, RecipeBarrier, "b", 0) }, []string{"barrier"}},
		"never two at a time": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.member(2, 3.5, 0, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
		"with one of a killed process": {func(h *trial) {
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Killed})
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
		}, nil},
		"with one of a process that has ended": {func(h *trial) {
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Ended})
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
		}, nil},
		"long after a process was killed": {func(h *trial) {
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Killed})
			h.member(1, 21, 23, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
		"with an index of another barrier": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 2)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
		"an index twice": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			test.tell(h)
			h.j.JudgeUntil(seconds(30))
			if len(h.j.Violations()) == 0 {
				h.j.Rounds(seconds(30), "b")
			}
			h.finds(30, test.finds...)
		})
	}
}

func TestAMemberThatLeavesADoubleBarrierAloneIsFound(t *testing.T) {
	tell := func(t *testing.T, leaves float64) *trial {
		h := newTrial(t)
		h.member(1, 1, 2, RecipeDouble, "d", 0)
		h.member(2, 1.5, 2.1, RecipeDouble, "d", 0)
		h.by(3, 1, "m", Event{Kind: Leaving, Recipe: RecipeDouble, Key: "d"})
		h.member(1, 3, 4, RecipeLeave, "d"+LeaveSuffix, 0)
		h.by(leaves, 2, "m", Event{Kind: Leaving, Recipe: RecipeDouble, Key: "d"})
		return h
	}
	t.Run("with the other", func(t *testing.T) { tell(t, 3.5).finds(9) })
	t.Run("before the other", func(t *testing.T) { tell(t, 5).finds(9, "barrier") })
	t.Run("before one that was stopped", func(t *testing.T) {
		h := tell(t, 5)
		h.by(3.5, 2, "", Event{Kind: Stopped})
		h.finds(9)
	})
	t.Run("entered with one that has not left yet", func(t *testing.T) {
		h := newTrial(t)
		h.member(1, 1, 3.1, RecipeDouble, "d", 0)
		h.member(2, 1.5, 2.1, RecipeDouble, "d", 0)
		h.by(2.2, 2, "m", Event{Kind: Leaving, Recipe: RecipeDouble, Key: "d"})
		h.member(2, 2.2, 4, RecipeLeave, "d"+LeaveSuffix, 0)
		h.member(3, 3, 3.5, RecipeDouble, "d", 0)
		h.finds(9)
	})
	t.Run("entered with one that has left", func(t *testing.T) {
		h := newTrial(t)
		h.member(1, 1, 0, RecipeDouble, "d", 0)
		h.by(1.1, 1, "m", Event{Kind: Gone, Recipe: RecipeDouble, Key: "d"})
		h.member(3, 3, 3.5, RecipeDouble, "d", 0)
		h.finds(9, "barrier")
	})
	t.Run("entered alone", func(t *testing.T) {
		h := newTrial(t)
		h.member(1, 1, 2, RecipeDouble, "d", 0)
		h.finds(9, "barrier")
	})
}

func TestAGateThatLetsSomebodyPassWhileItIsShutIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		opening float64
		finds   []string
	}{
		"opened in time": {2.5, nil},
		"opened later":   {3.5, []string{"gate"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTrial(t)
			h.by(0.5, 1, "o", Event{Kind: Closing, Recipe: RecipeGate, Key: "g"})
			h.by(1, 1, "o", Event{Kind: Shut, Recipe: RecipeGate, Key: "g"})
			h.by(2, 2, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
			h.by(3, 2, "w", Event{Kind: Granted, Recipe: RecipeGate, Key: "g"})
			h.by(test.opening, 1, "o", Event{Kind: Opening, Recipe: RecipeGate, Key: "g"})
			h.by(test.opening+0.1, 1, "o", Event{Kind: Opened, Recipe: RecipeGate, Key: "g"})
			h.finds(9, test.finds...)
		})
	}
}

func TestAGateThatStaysShutForAWaiterIsFound(t *testing.T) {
	h := newTrial(t)
	h.serves(0, 60)
	h.by(1, 1, "o", Event{Kind: Closing, Recipe: RecipeGate, Key: "g"})
	h.by(2, 2, "w", Event{Kind: Begin, Recipe: RecipeGate, Key: "g"})
	h.finds(19)
	h.by(20, 1, "o", Event{Kind: Opened, Recipe: RecipeGate, Key: "g"})
	h.finds(27.9)
	h.finds(28.1, "served")
}

func TestWhatIsLeftBehindIsFound(t *testing.T) {
	h := newTrial(t)
	may := func(path string) bool { return path == "/data" }
	h.j.Remains(0, []Znode{{Path: "/data"}}, may)
	h.finds(1)
	h.j.Remains(0, []Znode{{Path: "/data", Ephemeral: true}, {Path: "/lock/place"}}, may)
	h.finds(1, "remains", "remains")
}
