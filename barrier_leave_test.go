package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// opened returns the barriers of a round of two that was opened just now. The reply to
// the first member's read of ready took that long.
func opened(t *testing.T, w *world, took time.Duration) (first, second *Barrier) {
	first, second = NewBarrier(w.stranger(nil), "/b", 2), NewBarrier(w.stranger(nil), "/b", 2)
	a := waitLater(t, first)
	synctest.Wait()
	w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: "/b/round/ready", For: took})
	b := waitLater(t, second)
	indexes(t, a, b)
	synctest.Wait()
	return first, second
}

func TestA22AMemberLeavesAfterAsLongAsItsReplyTook(t *testing.T) {
	for took, stays := range map[time.Duration]time.Duration{
		30 * time.Millisecond: 30 * time.Millisecond,
		2 * time.Second:       maxLinger,
	} {
		inBubble(t, func(t *testing.T, w *world) {
			opened(t, w, took)
			time.Sleep(stays - time.Millisecond)
			synctest.Wait()
			require.Len(t, w.srv.Children("/b/round"), 2, "one member, and ready")
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"))
		})
	}
}

func TestA22AMemberLeavesAtOnceWhenItsClientWaitsAtTheBarrierAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := opened(t, w, 50*time.Millisecond)
		before := time.Now()
		a := waitLater(t, NewBarrier(first.line.c, "/b", 2)) // another value for the same path
		b := waitLater(t, second)
		indexes(t, a, b)
		require.Zero(t, time.Since(before))
	})
}

func TestB35AMemberLeavesAtOnceWhenItsClientIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, _ := opened(t, w, 50*time.Millisecond)
		before := time.Now()
		require.NoError(t, first.line.c.Close())
		require.Zero(t, time.Since(before))
		require.Empty(t, w.srv.Children("/b"), "it has deleted the round, too")
	})
}

func TestB32AWaitThatIsCancelledBeforeTheMemberOfTheLastRoundCouldLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, _ := opened(t, w, 50*time.Millisecond)
		w.away(first.line.c)
		a := waitLater(t, first)
		synctest.Wait()
		a.Cancel(nil)
		_, err := a.Wait()
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUncertain)
		w.back()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	}, zktest.TickTime(time.Second))
}

// A Wait that came after the round was opened, and before the member of the same Client
// learned it, does not wait until that one has stayed for a while.
func TestA22AMemberLeavesAtOnceWhereItsClientWaitsAtTheBarrierAlready(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const took = 50 * time.Millisecond
		c, other := w.stranger(nil), NewBarrier(w.stranger(nil), "/b", 2)
		a := waitLater(t, NewBarrier(c, "/b", 2))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: "/b/round/ready", For: took})
		opens := waitLater(t, other)
		synctest.Wait()
		require.False(t, opens.Waiting())
		require.True(t, a.Waiting())
		began := time.Now()
		next := waitLater(t, NewBarrier(c, "/b", 2))
		indexes(t, next, waitLater(t, other))
		require.Equal(t, took, time.Since(began))
		indexes(t, a, opens)
	})
}

// The last member to leave deletes the round, even if its connection breaks just then.
func TestTheLastMemberDeletesTheRoundAlthoughItsConnectionBreaks(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: opDeleteRound, After: after})
			indexes(t, waitLater(t, NewBarrier(w.stranger(nil), "/b", 1)))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"))
		})
	}
}
