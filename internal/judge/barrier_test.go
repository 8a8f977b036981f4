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
	judged(t, 30, map[string]story{
		"in time": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 1)
			h.rounds()
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
			h.rounds()
		}, nil},
		"with one of a process that has ended": {func(h *trial) {
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Ended})
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.rounds()
		}, nil},
		"long after a process was killed": {func(h *trial) {
			h.serves(0, 21)
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Killed})
			h.member(1, 21, 23, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
		"long after a process was killed, behind an outage": {func(h *trial) { // in which its session did not expire
			h.serves(0, 1)
			h.serves(20, 30)
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Killed})
			h.member(1, 21, 23, RecipeBarrier, "b", 0)
		}, nil},
		"the first to be served after an outage": {func(h *trial) { // before it is over for the plain writes
			h.serves(0, 1)
			h.member(2, 0.5, 0, RecipeBarrier, "b", 0)
			h.by(0.9, 2, "", Event{Kind: Killed})
			h.member(1, 21, 23, RecipeBarrier, "b", 0)
		}, nil},
		"with an index of another barrier": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 2)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 0)
		}, []string{"barrier"}},
		"an index twice": {func(h *trial) {
			h.member(1, 1, 3, RecipeBarrier, "b", 0)
			h.member(2, 2, 3.1, RecipeBarrier, "b", 0)
			h.rounds()
		}, []string{"barrier"}},
	})
}

// rounds judges the indexes that were given out.
func (h *trial) rounds() {
	h.finds(30)
	h.j.Rounds(seconds(30), "b")
}

// entering tells of an Enter that is never seen to return if until is 0.
func (h *trial) entering(process int, from, until float64) {
	h.member(process, from, until, RecipeDouble, "d", 0)
}

// leaving tells of a Leave that is never seen to return if until is 0.
func (h *trial) leaving(process int, from, until float64) {
	h.leaves(from, process)
	h.member(process, from, until, RecipeLeave, "d"+LeaveSuffix, 0)
}

// leaves tells of a member of a double barrier that begins to leave it.
func (h *trial) leaves(at float64, process int) {
	h.by(at, process, "m", Event{Kind: Leaving, Recipe: RecipeDouble, Key: "d"})
}

func TestAMemberThatLeavesADoubleBarrierAloneIsFound(t *testing.T) {
	first := func(other float64) func(h *trial) {
		return func(h *trial) {
			h.entering(1, 1, 2)
			h.entering(2, 1.5, 2.1)
			h.leaving(1, 3, 4)
			h.leaves(other, 2)
		}
	}
	judged(t, 9, map[string]story{
		"with the other":   {first(3.5), nil},
		"before the other": {first(5), []string{"barrier"}},
		"before one that was stopped": {func(h *trial) {
			first(5)(h)
			h.by(3.5, 2, "", Event{Kind: Stopped})
		}, nil},
		"entered with one that has not left yet": {func(h *trial) {
			h.entering(1, 1, 3.1)
			h.entering(2, 1.5, 2.1)
			h.leaving(2, 2.2, 4)
			h.entering(3, 3, 3.5)
		}, nil},
		"entered with one that has left": {func(h *trial) {
			h.entering(1, 1, 0)
			h.by(1.1, 1, "m", Event{Kind: Gone, Recipe: RecipeDouble, Key: "d"})
			h.entering(3, 3, 3.5)
		}, []string{"barrier"}},
		"entered alone": {func(h *trial) { h.entering(1, 1, 2) }, []string{"barrier"}},
	})
}

func TestAGateThatLetsSomebodyPassWhileItIsShutIsFound(t *testing.T) {
	passes := func(opening float64) func(h *trial) {
		return func(h *trial) {
			h.turns(0.5, Closing)
			h.turns(1, Shut)
			h.goesThrough(2, 3)
			h.turns(opening, Opening)
			h.turns(opening+0.1, Opened)
		}
	}
	judged(t, 9, map[string]story{
		"opened in time": {passes(2.5), nil},
		"opened later":   {passes(3.5), []string{"gate"}},
	})
}

func TestWhatIsLeftBehindIsFound(t *testing.T) {
	h := newTrial(t)
	may := func(z Znode) bool { return z.Path == "/data" && !z.Ephemeral }
	h.j.Remains(0, []Znode{{Path: "/data"}}, may)
	h.finds(1)
	h.j.Remains(0, []Znode{{Path: "/data", Ephemeral: true}, {Path: "/lock/place"}}, may)
	h.finds(1, "remains", "remains")
}
