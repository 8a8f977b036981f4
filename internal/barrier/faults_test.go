package barrier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit a Barrier: which members a round is opened with, and who learns of it.

// The n-th member has seen that there are n. One of them dies before the n-th member
// has listed the round, or before it has opened it.
func TestMemberThatDiesWhileAnotherOpensIsNotCounted(t *testing.T) {
	each(t, barrierKind.opening(zktest.Delay), func(t *testing.T, w *world, late zktest.Fault) {
		c := w.Stranger(nil)
		dies := w.WaitsIn(c, 2)
		late.For = time.Second
		w.Plan.Add(late)
		opens := w.waits(2)
		require.Len(t, w.Present(), 2)
		w.expire(c)
		recipetest.Fails(t, dies, zk.ErrSessionExpired)
		time.Sleep(2 * time.Second)
		require.True(t, opens.Waiting())
		recipetest.Indexes(t, opens, w.waits(2))
	})
}

// Two members are about to open the round with the one that dies.
func TestRoundOpensForTheOthersWhenAMemberDiesDuringTheOpening(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.Stranger(nil)
		w.WaitsIn(c, 2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: time.Second, Times: 2})
		second, third := w.waits(2), w.waits(2)
		w.expire(c)
		recipetest.Indexes(t, second, third)
	}, zktest.TickTime(time.Second))
}

// The opening is applied, and the session of the member that sent it ends. The round is
// open for that member, too. If the round is deleted before the member can read it, the member
// cannot learn the outcome any more.
func TestMemberThatDiesWithItsOpeningAppliedOpensForAll(t *testing.T) {
	each(t, map[string]bool{"the round stays": true, "the round is gone": false}, func(t *testing.T, w *world, stays bool) {
		if stays {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		}
		first := w.waits(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: recipetest.OpOpenRound})
		dies := w.waits(2)
		if stays {
			recipetest.Indexes(t, first, dies)
			return
		}
		require.Zero(t, first.Get())
		recipetest.Fails(t, dies, zkrecipes.ErrUncertain, zk.ErrSessionExpired)
		w.passes(2)
	})
}

// The request that opens the round and the one that withdraws a member, since it is
// cancelled or its client is closed, are in flight at the same time.
func TestCancelRacingTheOpeningInEitherOrder(t *testing.T) {
	late := zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCancelWait, For: zkconn.Grace / 3}
	lost := zktest.Fault{Do: zktest.Answer, After: true, Op: recipetest.OpCancelWait, Code: jute.ErrOperationTimeout}
	type race struct {
		faults []zktest.Fault
		close  bool
		opens  bool // meanwhile
	}
	each(t, map[string]race{
		"the opening is applied first":                  {[]zktest.Fault{late}, false, true},
		"the opening is applied first, then Close":      {[]zktest.Fault{late}, true, true},
		"the reply to the cancel is lost, opened":       {[]zktest.Fault{lost, late}, false, true},
		"the reply to the cancel is lost, not opened":   {[]zktest.Fault{lost}, false, false},
		"the cancel is applied first, the opening late": {[]zktest.Fault{{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: time.Second}}, false, false},
	}, func(t *testing.T, w *world, race race) {
		c := w.Stranger(nil)
		a := w.WaitsIn(c, 2)
		w.Plan.Add(race.faults...)
		if !race.opens && race.faults[0].Op == recipetest.OpOpenRound {
			partner := w.waits(2)
			recipetest.Cancels(t, a)
			time.Sleep(2 * time.Second)
			require.True(t, partner.Waiting(), "the opening was refused")
			recipetest.Indexes(t, partner, w.waits(2))
			return
		}
		if race.close {
			closed := harness.GoErr(t, func(context.Context) error { return c.Close() })
			defer func() { closed.Get() }()
		} else {
			a.Cancel(nil)
		}
		synctest.Wait()
		if !race.opens {
			require.NotErrorIs(t, recipetest.Fails(t, a, context.Canceled), zkrecipes.ErrEvicted)
			require.Empty(t, w.Present())
			return
		}
		require.True(t, a.Waiting())
		recipetest.Indexes(t, a, w.waits(2))
		w.empty()
	})
}

// A cancel finds its member deleted, and checks whether the round was opened with it.
func TestACancelThatFindsItsMemberDeletedChecksWhetherTheRoundWasOpenedWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.waits(2)
		znode := w.member()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrOperationTimeout, Op: recipetest.OpCancelWait})
		first.Cancel(nil) // the server answers that it is too busy, and the client retries in a moment
		synctest.Wait()
		require.Equal(t, 1, w.waits(2).Get())
		time.Sleep(5 * time.Millisecond) // the others have left, and the round still stands
		require.NoError(t, w.Bare().Delete(znode, -1))
		require.True(t, first.Waiting())
		require.Zero(t, first.Get())
	})
}

// The round opens while the client's link is stalled, and the client reads of it
// after its session has expired. The round was opened with this member, so Wait
// returns its index.
func TestMemberOfAnOpenedRoundGetsItsIndexAfterItsSessionExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.Srv)
		a := w.WaitsIn(w.Stranger(&zkrecipes.Options{Dialer: still.Dial}), 2)
		still.Stop()
		index := w.waits(2).Get()
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1)
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Present(), "expired")
		require.True(t, a.Waiting())
		still.Resume()
		require.Equal(t, 1-index, a.Get())
	})
}

// The session expires before the round opens. When the client reads again, another
// round with the same sequence numbers stands. That round's ready says nothing about
// this member.
func TestMemberOfAnExpiredSessionIgnoresTheReadyOfAnotherRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.Srv)
		a := w.WaitsIn(w.Stranger(&zkrecipes.Options{Dialer: still.Dial}), 2)
		number := w.Present()[0].Number
		still.Lose()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Present())
		recipetest.RemoveTree(t, w.Bare(), recipetest.RoundOf2)
		w.membersStay()
		one := w.waits(2)
		require.Equal(t, number, w.Present()[0].Number, "the same number")
		recipetest.Indexes(t, one, w.waits(2))
		still.Resume()
		recipetest.Fails(t, a, zk.ErrSessionExpired, zkrecipes.ErrUncertain) // its own round is gone
		w.Back()
	})
}

// A Wait that is cancelled while disconnected returns at once. The client's next
// Wait joins only once the old member is gone, so that a client never completes a
// round with its own cancelled member.
func TestNextWaitOfAClientStartsOnceTheCancelledOneIsResolved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, reason := w.Stranger(nil), errors.New("enough")
		a := w.WaitsIn(c, 2)
		w.Away(c)
		a.Cancel(reason)
		synctest.Wait()
		require.False(t, a.Waiting())
		recipetest.Fails(t, a, zkrecipes.ErrUncertain, context.Canceled, reason)
		require.Len(t, w.Present(), 1)
		again := w.WaitsIn(c, 2)
		recipetest.Cancels(t, w.WaitsIn(c, 2)) // it has not joined
		w.Back()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: recipetest.OpCancelWait, Code: jute.ErrThrottled, Times: 5})
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.LessOrEqual(t, len(w.Present()), 1)
			require.True(t, again.Waiting())
		}
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, again, w.waits(2))
		recipetest.Indexes(t, w.WaitsIn(c, 2), w.waits(2)) // nothing is waited for any more
	})
}

// A join that was never sent made no member.
func TestWaitThatIsCancelledBeforeItIsSentIsNotUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := w.used(2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.Requests(func() {
			_, err := b.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}))
		w.Away(w.ClientOf(b))
		for range 50 {
			a := w.waitsAt(b)
			// The cause of a context is not a server's answer, whichever error it is.
			a.Cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrSessionExpired))
			require.NotErrorIs(t, recipetest.Fails(t, a, context.Canceled), zkconn.ErrContended)
		}
		requests := w.Requests(func() { w.Back(); time.Sleep(time.Minute) })
		require.Zero(t, requests[recipetest.OpJoinRound])
	})
}

// A Wait that is cancelled while the members of the last round still leave has not yet
// joined.
func TestWaitCancelledBeforeTheLastRoundIsEmptyIsNotUncertain(t *testing.T) {
	each(t, map[string]bool{"connected": false, "disconnected": true}, func(t *testing.T, w *world, gone bool) {
		w.membersStay()
		w.passes(2)
		recipetest.MembersLeft()
		c := w.Stranger(nil)
		a := w.WaitsIn(c, 2)
		require.True(t, a.Waiting())
		require.Len(t, w.Present(), 2)
		if gone {
			w.Away(c)
		}
		a.Cancel(nil)
		synctest.Wait()
		require.False(t, a.Waiting())
		recipetest.Fails(t, a, context.Canceled)
	})
}

// Others may have counted a member that is deleted because it cannot be read.
func TestMemberThatCannotBeReadIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpMakeRound},
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getData", Path: recipetest.RoundOf2 + "/_c_*"})
		recipetest.Fails(t, w.waits(2), zkrecipes.ErrUncertain, zk.ErrNoAuth)
		synctest.Wait()
		require.Empty(t, w.Present())
	})
}

func TestWaitAtABarrierIsUncertainAfterCloseWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.Stranger(nil)
		a := w.WaitsIn(c, 2)
		w.Away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		recipetest.Fails(t, a, zkrecipes.ErrClosed, zkrecipes.ErrUncertain)
		require.Less(t, time.Since(began), 2*time.Second)
		w.Back()
		time.Sleep(time.Minute)
		require.Empty(t, w.Present())
	})
}
