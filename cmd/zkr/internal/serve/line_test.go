//go:build unix

package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// watched is a line whose looks a test makes.
type watched struct {
	line
	now time.Time
}

func newWatched(recipe zkrecipes.Recipe) *watched {
	return &watched{line: line{path: "/l", recipe: recipe, listings: map[string]listing{}}, now: begin()}
}

// lockName returns the name of a place; kind is lock-, __READ__ or __WRIT__.
func lockName(kind string, number int) string {
	return fmt.Sprintf("_c_00000000-0000-8000-8000-000000000000-%s%010d", kind, number)
}

func locks(numbers ...int) (names []string) {
	for _, n := range numbers {
		names = append(names, lockName("lock-", n))
	}
	return names
}

// sees makes a look, a second after the one before. creates is how many places there were ever.
func (w *watched) sees(dir string, creates int, names ...string) change {
	w.now = w.now.Add(time.Second)
	return w.observe(w.now, dir, listing{names: names, creates: int64(creates), czxid: 7})
}

// order returns the places' numbers, those that hold with a star.
func (w *watched) order() string {
	var all []string
	for _, p := range w.places {
		text := strings.TrimLeft(p.Name[len(p.Name)-10:], "0")
		if p.Held {
			text += "*"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestTheFirstInTheLineOfALockHolds(t *testing.T) {
	w := newWatched(zkrecipes.RecipeMutex)
	require.Zero(t, w.sees("", 3, append(locks(3, 1, 2), "somebody-elses")...), "nothing is known of the time before")
	require.Equal(t, "1* 2 3", w.order())
	require.Equal(t, change{acquired: 1}, w.sees("", 3, locks(2, 3)...), "how long it has waited is not known")
	require.Equal(t, "2* 3", w.order())
	require.Equal(t, w.now, w.places[0].heldAt)
	require.Zero(t, w.places[1].heldAt)
	require.Zero(t, w.sees("", 4, locks(2, 3, 4)...))
	require.Zero(t, w.sees("", 4, locks(2, 4)...), "3 gave up: 2 is still ahead of it")
	require.Equal(t, change{acquired: 1, waits: []time.Duration{2 * time.Second}}, w.sees("", 4, locks(4)...))
	require.Equal(t, change{acquired: 0}, w.sees("", 4))
	require.Equal(t, change{acquired: 1, atOnce: 1}, w.sees("", 5, locks(5)...))
	require.Equal(t, w.now, w.places[0].arrived)
}

func TestThoseThatCameAndWentBetweenTwoLooksAreCounted(t *testing.T) {
	w := newWatched(zkrecipes.RecipeMutex)
	w.sees("", 1, locks(1)...)
	require.Equal(t, change{acquired: 8, atOnce: 8}, w.sees("", 9), "by the servers' count of creations")
	require.Equal(t, change{acquired: 3, atOnce: 3}, w.sees("", 12, locks(12)...), "two of them unseen")
	w.sees("", 13, locks(12, 13)...)
	require.Zero(t, w.sees("", 15, locks(12, 13)...), "behind the holder nobody else can hold")
	require.Equal(t, change{acquired: 1, waits: []time.Duration{2 * time.Second}}, w.sees("", 16, locks(13)...), "nor behind the next one")
	require.Equal(t, change{acquired: 1, atOnce: 1}, w.sees("", 17), "13 has ended, and an unseen one")
	require.Zero(t, w.observe(w.now, "", listing{}), "the line is deleted")
	require.Equal(t, change{acquired: 2, atOnce: 2}, w.observe(w.now, "", listing{names: locks(1), creates: 2, czxid: 9}), "and made again")
	require.Equal(t, change{acquired: 3, atOnce: 3}, w.observe(w.now, "", listing{creates: 3, czxid: 11}), "and made again between two looks")
}

func TestAWaiterThatHeldBetweenTwoLooksIsCounted(t *testing.T) {
	w := newWatched(zkrecipes.RecipeMutex)
	w.sees("", 1, locks(1)...)
	w.sees("", 3, locks(1, 2, 3)...)
	require.Equal(t, change{acquired: 2, waits: []time.Duration{time.Second, time.Second}}, w.sees("", 3, locks(3)...))
}

func TestReadersHoldTogether(t *testing.T) {
	w := newWatched(zkrecipes.RecipeRWLock)
	read, write := "__READ__", "__WRIT__"
	w.sees("", 4, lockName(read, 1), lockName(read, 2), lockName(write, 3), lockName(read, 4))
	require.Equal(t, "1* 2* 3 4", w.order())
	require.True(t, w.places[0].Shared)
	require.Zero(t, w.sees("", 4, lockName(read, 2), lockName(write, 3), lockName(read, 4)))
	require.Equal(t, "2* 3 4", w.order())
	require.Equal(t, 1, w.sees("", 4, lockName(write, 3), lockName(read, 4)).acquired)
	require.Equal(t, "3* 4", w.order())
	require.Equal(t, 1, w.sees("", 4, lockName(read, 4)).acquired)
}

func TestALeaderHasALeadersZnode(t *testing.T) {
	w := newWatched(zkrecipes.RecipeElection)
	w.sees("", 2, locks(1, 2)...)
	require.Equal(t, "1 2", w.order())
	require.Equal(t, 1, w.sees("", 3, append(locks(1, 2), leader)...).acquired)
	require.Equal(t, "1* 2", w.order())
	require.Equal(t, leader, w.shownPlace(w.places[0]).Place, "which is what deposes it")
	require.Equal(t, 1, w.sees("", 4, append(locks(2), leader)...).acquired)
}

func TestASemaphoresSlotsAreHeld(t *testing.T) {
	w := newWatched(zkrecipes.RecipeSemaphore)
	w.sees("/slots", 2, "0000000000-a", "0000000001-b", "strange")
	require.Empty(t, w.places, "the line is not known yet")
	w.sees("/line", 1, locks(1)...)
	require.Equal(t, []bool{true, true, false}, held(w))
	w.sees("/line", 2, locks(1, 2)...)
	require.Equal(t, 1, w.sees("/slots", 4, "0000000001-b", "0000000000-c", "0000000002-c").acquired, "two slots of one lease")
	c := w.sees("/line", 2, locks(2)...)
	require.Zero(t, c.acquired, "its slot is counted")
	require.Empty(t, c.waits, "it was there at the first look")
	require.Equal(t, []time.Duration{3 * time.Second}, w.sees("/line", 3, locks(3)...).waits)
}

func held(w *watched) (held []bool) {
	for _, p := range w.places {
		held = append(held, p.Held)
	}
	return held
}

func TestARowCountsWhatTheWatchHasSeen(t *testing.T) {
	w := newWatched(zkrecipes.RecipeMutex)
	w.sees("", 3, locks(1, 2, 3)...)
	w.sees("", 3, locks(2, 3)...)
	w.places[1].Since = begin()
	r := row{Holders: 9, Waiters: 9, Held: 1, Waiting: 1}
	w.countPlaces(&r)
	require.Equal(t, row{Holders: 1, Waiters: 1, Held: w.now.UnixMilli(), Waiting: begin().UnixMilli()}, r)
	require.True(t, slices.IsSortedFunc(w.places, func(a, b *place) int { return strings.Compare(a.Name, b.Name) }))
}

func TestAMemberThatIsGoneIsMissedUntilAnotherComes(t *testing.T) {
	w := newWatched(zkrecipes.RecipeGroup)
	missing := func() (names []string) {
		for _, p := range w.missing(w.now) {
			names = append(names, p.Name)
		}
		return names
	}
	w.sees("", 3, "a", "b", "c")
	require.Zero(t, w.sees("", 3, "a"), "nothing is acquired in a group")
	require.Equal(t, []string{"b", "c"}, missing())
	w.sees("", 4, "a", "c")
	require.Equal(t, []string{"b"}, missing(), "c is back")
	w.sees("", 5, "a", "c", "d")
	require.Empty(t, missing(), "d has taken the place of b")
	for _, p := range w.places {
		p.read = true
	}
	w.sees("", 6, "a", "c", "d")
	require.False(t, w.places[0].read, "one is back in another session")
	w.sees("", 6, "a", "c")
	w.now = w.now.Add(forgetting)
	require.Equal(t, []string{"d"}, missing())
	w.now = w.now.Add(time.Second)
	require.Empty(t, missing(), "that was long ago")
}
