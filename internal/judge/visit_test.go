package judge

import "testing"

// entering tells of an Enter that is never seen to return if until is 0.
func (h *trial) entering(process int, from, until float64) {
	h.member(process, from, until, RecipeDouble, "d", 0)
}

// leaving tells of a Leave that is never seen to return if until is 0.
func (h *trial) leaving(process int, from, until float64) {
	h.leaves(from, process)
	h.member(process, from, until, RecipeLeave, "d"+LeaveSuffix, 0)
}

// waitsToLeave tells of two who have entered, one of whom leaves and waits for the other.
func (h *trial) waitsToLeave() {
	h.serves(0, 60)
	h.entering(1, 1, 2.5)
	h.entering(2, 2, 2.5)
	h.leaving(2, 3, 0)
}

func TestAMemberOfADoubleBarrierThatIsNotWokenIsFound(t *testing.T) {
	foundAt(t, "served", map[string]delay{
		"in Enter, and the other inside": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
		}, 10.5},
		"in Enter, and the other waits for it in Leave": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
			h.leaving(1, 3, 0)
		}, 10.5},
		"in Leave, and the other enters again": {func(h *trial) {
			h.waitsToLeave()
			h.leaving(1, 3, 3.5)
			h.entering(1, 4, 0)
		}, 11.5},
		"in Leave, and the other's visit was lost": {func(h *trial) {
			h.waitsToLeave()
			h.by(4, 1, "m", Event{Kind: Gone, Recipe: RecipeDouble, Key: "d"})
		}, 12},
		"in Leave, and the other is killed": {func(h *trial) { h.waitsToLeave(); h.by(5, 1, "", Event{Kind: Killed}) }, 13},
		"in Leave, and the other ends":      {func(h *trial) { h.waitsToLeave(); h.by(5, 1, "", Event{Kind: Ended}) }, 13},

		"no: in Enter, for one that has not come": {func(h *trial) { h.serves(0, 60); h.entering(1, 1, 0) }, 0},
		"no: in Leave, for one that is inside":    {(*trial).waitsToLeave, 0},
		"no: in Leave, for one that is stopped in Enter": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
			h.leaving(1, 3, 0)
			h.by(2.2, 2, "", Event{Kind: Stopped})
		}, 0},
		"no: in Enter, once more, after its visit was lost": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 2.5)
			h.by(3, 1, "m", Event{Kind: Gone, Recipe: RecipeDouble, Key: "d"})
			h.by(3.1, 1, "m", Event{Kind: Failed, Recipe: RecipeLeave, Key: "d" + LeaveSuffix})
			h.entering(1, 3.2, 0)
		}, 0},
		"no: in Enter, in its process's next life": {func(h *trial) {
			h.serves(0, 60)
			h.entering(1, 1, 2.5)
			h.entering(2, 2, 0)
			h.by(3, 2, "", Event{Kind: Killed})
			h.leaving(1, 4, 6)
			h.j.Take(Event{At: seconds(5), Kind: Started, Process: 2, Life: 2})
			h.j.Take(Event{At: seconds(5), Kind: Begin, Process: 2, Life: 2, Worker: "m", Recipe: RecipeDouble, Key: "d"})
		}, 0},
	})
}
