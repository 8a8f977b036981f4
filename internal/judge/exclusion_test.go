package judge

import "testing"

// slots tells of slots that a process got and gave back.
func (h *trial) slots(process int, from, until float64, token int64, slots ...int) {
	e := Event{Recipe: RecipeSemaphore, Key: "s", Token: token, Slots: slots, From: seconds(from), Until: seconds(until)}
	e.Kind = Begin
	h.by(from-0.01, process, "w", e)
	e.Kind = Granted
	h.by(from, process, "w", e)
	e.Kind = Held
	h.by(until+0.01, process, "w", e)
}

func TestSlotsThatThereAreNotOrThatAreTakenAreFound(t *testing.T) {
	judged(t, 9, map[string]story{
		"all at once, by two":        {func(h *trial) { h.slots(1, 1, 3, 10, 0); h.slots(2, 2, 4, 11, 1) }, nil},
		"one after the other":        {func(h *trial) { h.slots(1, 1, 2, 10, 0, 1); h.slots(2, 3, 4, 11, 1) }, nil},
		"a slot of somebody else's":  {func(h *trial) { h.slots(1, 1, 3, 10, 0, 1); h.slots(2, 2, 4, 11, 1) }, []string{"exclusion"}},
		"a slot too many":            {func(h *trial) { h.slots(1, 1, 2, 10, 2) }, []string{"slots"}},
		"a slot twice":               {func(h *trial) { h.slots(1, 1, 2, 10, 1, 1) }, []string{"slots", "exclusion"}},
		"no slot":                    {func(h *trial) { h.slots(1, 1, 2, 10) }, []string{"slots"}},
		"a slot with an older token": {func(h *trial) { h.slots(1, 1, 2, 10, 0); h.slots(2, 3, 4, 9, 0) }, []string{"token"}},
		"another slot, older token":  {func(h *trial) { h.slots(1, 1, 2, 10, 0); h.slots(2, 3, 4, 9, 1) }, nil},
	})
}

func TestAGrantThatWasLateIsComparedIfItsCallBeganAfterAnother(t *testing.T) {
	late := func(called float64) func(h *trial) {
		return func(h *trial) {
			h.hold(1, 1, 2, 10, false)
			h.by(3, 2, "w", Event{Kind: Held, Key: "l", Token: 9, Called: seconds(called), From: seconds(3), Until: seconds(3)})
		}
	}
	judged(t, 9, map[string]story{
		"before it":    {late(0.5), nil},
		"after it":     {late(1.5), []string{"token"}},
		"nobody knows": {late(0), nil},
	})
}

func TestAWriterInTheMiddleOfADowngradeIsFound(t *testing.T) {
	judged(t, 6, map[string]story{
		"by its version": {func(h *trial) {
			h.by(1, 1, "w", Event{Kind: Downgraded, Key: "l", Was: 3, Version: 3})
			h.finds(2)
			h.by(3, 1, "w", Event{Kind: Downgraded, Key: "l", Was: 4, Version: 5})
		}, []string{"downgrade"}},
		"by its hold": {func(h *trial) {
			h.hold(1, 1, 2, 10, false)
			h.hold(1, 2, 4, 10, true) // from the end of the hold as a writer on
			h.finds(5)
			h.hold(2, 2.1, 2.2, 11, false)
		}, []string{"exclusion"}},
		"by a hold from the grant on": {func(h *trial) {
			for shared, until := range map[bool]float64{false: 2, true: 4} {
				h.by(4, 1, "w", Event{Kind: Held, Key: "l", Token: 10, Shared: shared, From: seconds(1), Until: seconds(until)})
			}
			h.hold(2, 2.1, 2.2, 11, true)
			h.finds(5)
			h.hold(2, 3, 3.1, 12, false)
		}, []string{"exclusion"}},
	})
}
