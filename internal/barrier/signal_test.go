package barrier_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The signal, by whose event the members of a Barrier learn that their round is open.

// A member's session ended before the opening, so a number does not tell the index.
func TestMembersOfARoundWithHolesReadTheirIndexes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, last := w.Stranger(nil), w.InRound(4)
		recipetest.Cancels(t, w.waitsAt(last)) // it knows the path now
		as := []waiting{w.waits(4), w.WaitsIn(c, 4), w.waits(4)}
		w.expire(c)
		recipetest.Fails(t, as[1], zkrecipes.ErrLost)
		as = []waiting{as[0], as[2], w.waits(4)}
		requests := w.Requests(func() {
			for i, a := range append(as, w.waitsAt(last)) {
				require.Equal(t, i, a.Get(), "in the order of arrival")
			}
			w.empty()
		})
		require.Equal(t, 3+1, requests["getData"], "each waiting member reads ready, and the last to come n")
		require.Equal(t, 1, requests["multi(check,delete,setData,check,check,check,check,check)"])
		require.Equal(t, 1, requests["multi(check,delete,delete)"], "the member that deletes the round knows that the signal is gone")
	})
}

// The connection is lost after the watch was answered. The watch is set again, but its
// event proves nothing any more.
func TestAnEventAfterAReconnectMakesAMemberRead(t *testing.T) {
	each(t, map[string]bool{"opened after the reconnect": true, "opened before it": false}, func(t *testing.T, w *world, before bool) {
		c, other := w.Stranger(nil), w.InRound(2)
		a := w.WaitsIn(c, 2)
		w.Away(c)
		if before {
			w.Back()
			time.Sleep(10 * time.Second)
			require.True(t, a.Waiting())
		}
		requests := w.Requests(func() {
			require.Equal(t, 1, w.waitsAt(other).Get())
			w.Back()
			require.Zero(t, a.Get())
		})
		require.GreaterOrEqual(t, requests["getData"], 1+1+1, "the path's data twice, and ready")
	})
}

// While a member's connection is lost, an operator deletes the round, and another one
// takes its place. The watch fires, but another member has the number by now.
func TestMemberDoesNotBelieveTheSignalOfAnotherRound(t *testing.T) {
	each(t, map[string]bool{"open": true, "not open": false}, func(t *testing.T, w *world, opened bool) {
		c, conn := w.Stranger(nil), w.Bare()
		first, second := w.InRound(2), w.InRound(2)
		a := w.WaitsIn(c, 2)
		w.Away(c)
		recipetest.RemoveTree(t, conn, recipetest.RoundOf2)
		w.membersStay()
		other := w.waitsAt(first)
		if opened {
			recipetest.Indexes(t, other, w.waitsAt(second))
			recipetest.MembersLeft()
		}
		w.Back()
		recipetest.Fails(t, a, zkrecipes.ErrEvicted, zkrecipes.ErrUncertain)
		require.Equal(t, !opened, other.Waiting())
	})
}

// An operator deletes the round before the member watches its signal, and another round is
// opened in its place.
func TestMemberThatWatchesALaterRoundsSignalDoesNotBelieveIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := w.InRound(2), w.InRound(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.SignalOf2, For: time.Second})
		a := w.waits(2)
		recipetest.RemoveTree(t, w.Bare(), recipetest.RoundOf2)
		w.membersStay()
		recipetest.Indexes(t, w.waitsAt(first), w.waitsAt(second))
		recipetest.Fails(t, a, zkrecipes.ErrEvicted, zkrecipes.ErrUncertain)
	})
}

// The signal of a round is for those who wait for the n of the member that created it.
// They, and those who wait for another n, must all wake.
func TestMembersOfAnotherNDoNotBelieveTheSignal(t *testing.T) {
	each(t, map[string][]int{
		"comes first": {5, 3, 3, 3}, "comes second": {3, 5, 3, 3}, "is the last": {3, 3, 5, 3}, "is one too many": {3, 3, 3, 5},
	}, func(t *testing.T, w *world, order []int) {
		old := w.used(5)
		w.sizeIs("3")
		// Nobody opens the round until all four have joined.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: 300 * time.Millisecond, Times: -1})
		began := time.Now()
		var as []waiting
		var wrong waiting
		for _, n := range order {
			if n == 5 {
				wrong = w.waitsAt(old)
			} else {
				as = append(as, w.waits(n))
			}
		}
		require.Len(t, w.Present(), 4)
		w.failsForSize(wrong, 3, 5)
		require.Less(t, time.Since(began), time.Second, "before it reads n again")
		recipetest.Indexes(t, as...)
		time.Sleep(time.Minute)
		w.empty()
	})
}
