package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// opened returns the barriers of a round of two that was opened just now. The reply to
// the first member's request for a watch took that long.
func opened(t *testing.T, w *world, took time.Duration) (first, second *Barrier) {
	first, second = NewBarrier(w.stranger(nil), "/b", 2), NewBarrier(w.stranger(nil), "/b", 2)
	w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: signalOf2, For: took})
	a := waitLater(t, first)
	time.Sleep(took)
	synctest.Wait()
	b := waitLater(t, second)
	indexes(t, a, b)
	synctest.Wait()
	return first, second
}

func TestA22AMemberLeavesTheLaterTheSlowerTheServersAre(t *testing.T) {
	for took, stays := range map[time.Duration]time.Duration{
		30 * time.Millisecond: 6 * time.Millisecond, // a tenth for each of two members
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

// A Wait that came before the member of the same Client has learned that the round is open
// does not wait until that one has stayed for a while.
func TestA22AMemberLeavesAtOnceWhereItsClientWaitsAtTheBarrierAlready(t *testing.T) {
	for name, waits := range map[string]bool{"waits already": true, "does not wait": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				const latency = 50 * time.Millisecond
				slow := harness.NewLink(w.srv)
				slow.SetLatency(latency)
				c, other := w.stranger(&Options{Dialer: slow.Dial}), NewBarrier(w.stranger(nil), "/b", 2)
				a := waitLater(t, NewBarrier(c, "/b", 2))
				time.Sleep(time.Second)
				opens := waitLater(t, other)
				synctest.Wait()
				require.False(t, opens.Waiting())
				require.True(t, a.Waiting())
				next := other
				if waits {
					next = NewBarrier(c, "/b", 2)
				}
				last := waitLater(t, next)
				time.Sleep(latency)
				synctest.Wait()
				indexes(t, a, opens)
				require.Equal(t, waits, len(w.present()) == 0, "the member has left")
				indexes(t, last, waitLater(t, other))
			})
		})
	}
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
