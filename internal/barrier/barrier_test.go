package barrier_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The rounds of a Barrier: who is in which.

// The previous round rejects an early arrival and is deleted before the early arrival
// lists it. The member that the listing then shows belongs to the next round. The
// early arrival must not wait for it to leave.
func TestEarlyArrivalThatFindsTheNextRoundJoinsIt(t *testing.T) {
	each(t, map[string]zktest.Fault{
		"listing late": {Op: "getChildren2", Path: recipetest.RoundOf2}, "watching late": {Op: "getData", Path: recipetest.RoundOf2 + "/_c_*"},
	}, func(t *testing.T, w *world, late zktest.Fault) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Second})
		w.passes(2)
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1)
		late.Do, late.For = zktest.Delay, 5*time.Second
		w.Plan.Add(late)
		early := w.waits(2)
		time.Sleep(2 * time.Second)
		require.Empty(t, w.Present(), "the previous round is gone")
		next := w.waits(2)
		require.Len(t, w.Present(), 1)
		require.True(t, next.Waiting())
		require.True(t, early.Waiting())
		time.Sleep(4 * time.Second)
		recipetest.Indexes(t, early, next)
	})
}

// All members were admitted and died before they could leave, the last one while the next
// arrival waits for it. That deletes their round.
func TestRoundWhoseMembersDiedIsCleanedUpByTheNextArrival(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		w.membersStay()
		recipetest.Indexes(t, w.WaitsIn(c, 2), w.WaitsIn(d, 2))
		recipetest.MembersLeft()
		w.expire(c)
		early := w.waits(2)
		require.Len(t, w.Present(), 1, "it has not joined")
		w.expire(d)
		synctest.Wait()
		require.Len(t, w.Present(), 1, "the member of the next round")
		recipetest.Indexes(t, early, w.waits(2))
		w.empty()
	})
}

// A member's next join is sent behind its leave: else it would be refused, and watch its
// own znode of the round before.
func TestMemberThatComesBackAtOnceDoesNotWaitForItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.waits(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, Path: w.member(), For: time.Hour})
		b := w.InRound(2)
		var again waiting
		requests := w.Requests(func() {
			again = harness.Go(t, func(ctx context.Context) (int, error) {
				if _, err := b.Wait(ctx); err != nil {
					return -1, err
				}
				return b.Wait(ctx)
			})
			require.Zero(t, first.Get())
			synctest.Wait()
		})
		require.True(t, again.Waiting())
		require.Equal(t, 1+2, requests[recipetest.OpJoinRound], "refused, and refused behind its watch")
	})
}

// The first member of a round is canceled, or its session ends, at any of its requests.
func TestFirstMemberLeavesNothing(t *testing.T) {
	for _, op := range []string{recipetest.OpMakeContainer, recipetest.OpMakeRound, recipetest.OpJoinRound, "getData", "getChildren2"} {
		for _, do := range []zktest.Fault{
			{Do: zktest.Delay, For: 2 * time.Second}, {Do: zktest.Delay, For: 2 * time.Second, After: true},
			{Do: zktest.Drop}, {Do: zktest.Drop, After: true}, {Do: zktest.Expire}, {Do: zktest.Expire, After: true},
		} {
			t.Run(fmt.Sprint(op, " ", do.Do, do.After), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					do.Op = op
					w.Plan.Add(do)
					a := w.waits(2)
					time.Sleep(time.Second)
					a.Cancel(nil)
					_, err := a.Wait()
					require.Error(t, err)
					time.Sleep(time.Minute)
					require.Empty(t, w.Srv.Children("/b"))
				})
			})
		}
	}
}

// The session of the only member ends while it waits, or an operator deletes its znode.
func TestOnlyMemberThatIsGoneLeavesNothing(t *testing.T) {
	each(t, map[string]func(w *world, c *zkrecipes.Client){
		"expiry":   (*world).expire,
		"eviction": func(w *world, _ *zkrecipes.Client) { require.NoError(w.T, w.Bare().Delete(w.member(), -1)) },
	}, func(t *testing.T, w *world, end func(*world, *zkrecipes.Client)) {
		c := w.Stranger(nil)
		a := w.WaitsIn(c, 2)
		time.Sleep(time.Minute)
		end(w, c)
		recipetest.Fails(t, a)
		time.Sleep(time.Minute)
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// The last member to leave deletes the round, even if its connection breaks just then.
func TestTheLastMemberDeletesTheRoundAlthoughItsConnectionBreaks(t *testing.T) {
	each(t, map[string]bool{"before": false, "after": true}, func(t *testing.T, w *world, after bool) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpDeleteRound, After: after})
		w.passes(1)
		time.Sleep(time.Minute)
		w.empty()
	})
}

// The data of ready are ranges of numbers, so that they do not grow with n.
func TestReadyHoldsRanges(t *testing.T) {
	require.Equal(t, "1-4,6,8-9", string(layout.AppendRanges(nil, []int32{1, 2, 3, 4, 6, 8, 9})))
	for number, want := range map[int32]int{1: 0, 4: 3, 6: 4, 8: 5, 9: 6} {
		index, n, err := barrier.IndexIn([]byte("1-4,6,8-9"), number)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, want, index)
	}
	for _, number := range []int32{-1, 0, 5, 7, 10} {
		_, _, err := barrier.IndexIn([]byte("1-4,6,8-9"), number)
		require.Equal(t, barrier.ErrExcluded, err)
	}
	for _, junk := range []string{"", "x", "-1", "4-1", "1-", "1-x", ",", "99999999999"} {
		_, _, err := barrier.IndexIn([]byte(junk), 7)
		require.ErrorIs(t, err, barrier.ErrWritten, junk)
	}
}
