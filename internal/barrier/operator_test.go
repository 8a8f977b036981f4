package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What operators and other programs do to the znodes of a Barrier.

// The search for the reply to the join has set the watch on the member already.
func TestEvictedMemberWhoseJoinWasSearchedForGetsErrEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpMakeRound})
		a := w.waits(2)
		time.Sleep(500 * time.Millisecond)
		require.True(t, a.Waiting())
		require.NoError(t, w.Bare().Delete(w.member(), -1))
		synctest.Wait()
		require.False(t, a.Waiting(), "at once")
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)
	})
}

// A member that has come a moment ago does not watch its znode yet. The round is opened without it.
func TestMemberEvictedBeforeTheOpeningGetsErrEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.waits(2)
		require.NoError(t, w.Bare().Delete(w.member(), -1))
		still := harness.NewLink(w.Srv)
		b := w.WaitsIn(w.Stranger(&zkrecipes.Options{Dialer: still.Dial}), 2)
		still.Stop() // so the round is there when a reads of its opening
		c := w.waits(2)
		synctest.Wait()
		require.False(t, a.Waiting())
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)
		still.Resume()
		recipetest.Indexes(t, b, c)
		w.empty()
	})
}

// The round was opened with a member whose znode, or whose round, is deleted before its
// client has read of the opening. The event, which is on its way, proves the index.
func TestMemberEvictedAfterTheOpeningGetsItsIndex(t *testing.T) {
	each(t, map[string]bool{"the member": false, "the round": true}, func(t *testing.T, w *world, all bool) {
		still := harness.NewLink(w.Srv)
		a := w.WaitsIn(w.Stranger(&zkrecipes.Options{Dialer: still.Dial, SessionTimeout: time.Minute}), 2)
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		still.Stop()
		require.Equal(t, 1, w.waits(2).Get())
		recipetest.MembersLeft()
		if all {
			recipetest.RemoveTree(t, w.Bare(), recipetest.RoundOf2)
		} else {
			require.NoError(t, w.Bare().Delete(w.member(), -1))
		}
		still.Resume()
		require.Zero(t, a.Get(), "although nobody could read it any more")
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

func TestMembersOfADeletedRoundGetErrEvicted(t *testing.T) {
	for _, again := range []bool{true, false} {
		each(t, map[string]string{"the round": "/b/round", "the path": "/b"}, func(t *testing.T, w *world, what string) {
			c, still := w.Stranger(nil), harness.NewLink(w.Srv)
			a := w.WaitsIn(c, 3)
			b := w.WaitsIn(w.Stranger(&zkrecipes.Options{Dialer: still.Dial}), 3)
			still.Stop() // this client reads of the deletion later
			recipetest.RemoveTree(t, w.Bare(), what)
			var others []waiting
			if again {
				others = append(others, w.waits(3), w.waits(3))
			}
			still.Resume()
			for _, m := range []waiting{a, b} {
				recipetest.Fails(t, m, zkrecipes.ErrEvicted, zkrecipes.ErrUncertain) // nobody knows any more whether the round had been opened
			}
			for len(others) < 3 {
				others = append(others, w.WaitsIn(c, 3))
			}
			recipetest.Indexes(t, others...)
		})
	}
}

// An operator deletes the signal before the round is opened. The members wait on.
func TestRoundOpensWithoutItsSignal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.waits(3)
		require.NoError(t, w.Bare().Delete(recipetest.ReadyOf2+"/signal-of3", -1))
		synctest.Wait()
		require.True(t, a.Waiting())
		recipetest.Indexes(t, a, w.waits(3), w.waits(3))
		w.empty()
	})
}

// Something stands below a raised signal, which can be deleted by nobody then. The next
// round cannot begin, and nobody tries without end.
func TestSignalThatCannotBeDeletedIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.waits(2)
		var ops []any
		for _, path := range []string{"/open", "/open/x"} {
			ops = append(ops, &zk.CreateRequest{Path: recipetest.SignalOf2 + path, Data: []byte{}, Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := w.Bare().Multi(ops...)
		require.NoError(t, err)
		a.Get()
		recipetest.MembersLeft()
		ctx := harness.Within(t, time.Minute)
		requests := w.Requests(func() {
			for range 2 {
				b := w.InRound(2)
				harness.Go(t, func(context.Context) (int, error) { return b.Wait(ctx) })
			}
			<-ctx.Done()
		})
		require.Less(t, recipetest.Sum(requests), 300, "%v", requests)
	})
}

// The members cannot open the round, as one of the signals that they would delete has a child. The
// last to come gets an error, and does not try without end.
func TestSignalThatKeepsARoundShutIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.waits(3)
		w.waits(3)
		recipetest.Cancels(t, first) // so the numbers are not 1 to 3
		require.NoError(t, w.Bare().Delete(recipetest.ReadyOf2+"/signal-of3", -1))
		harness.MakeParents(t, w.Bare(), recipetest.ReadyOf2+"/signal-of9/x")
		w.waits(3)
		var last waiting
		requests := w.Requests(func() { last = w.waits(3); time.Sleep(time.Minute) })
		require.ErrorContains(t, recipetest.Fails(t, last), "cannot be deleted")
		require.Less(t, recipetest.Sum(requests), 300, "%v", requests)
	})
}

// An operator writes to ready. No member waits for ever, and the next round is not blocked.
func TestReadyWrittenBySomebodyElseLeavesNobodyWaiting(t *testing.T) {
	each(t, map[string]string{"empty": "", "junk": "go!", "no number": "1-", "two numbers": "7-8"}, func(t *testing.T, w *world, data string) {
		c, conn := w.Stranger(nil), w.Bare()
		a := w.WaitsIn(c, 2)
		w.Write(recipetest.ReadyOf2, data)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if data == "7-8" { // which means that a round with other members was opened
			require.True(t, a.Waiting())
		} else {
			require.ErrorContains(t, recipetest.Fails(t, a, zkrecipes.ErrUncertain), "znode ready was written by somebody else")
			a = w.WaitsIn(c, 2)
		}
		recipetest.Indexes(t, a, w.waits(2))
		recipetest.MembersLeft()

		// A ready that was written twice is deleted with the round, too.
		a = w.WaitsIn(c, 2)
		write := &zk.SetDataRequest{Path: recipetest.ReadyOf2, Data: []byte("go!"), Version: -1}
		_, err := conn.Multi(write, write)
		require.NoError(t, err)
		recipetest.Fails(t, a, zkrecipes.ErrUncertain)
		w.passes(2)
	})
}

func TestRoundWithoutReadyIsAnErrorWithoutSpinning(t *testing.T) {
	each(t, map[string]bool{"deleted": false, "and created again": true}, func(t *testing.T, w *world, again bool) {
		c, conn := w.Stranger(nil), w.Bare()
		as := []waiting{w.WaitsIn(c, 3), w.waits(3)}
		_, err := conn.Multi(&zk.DeleteRequest{Path: recipetest.ReadyOf2 + "/signal-of3", Version: -1}, &zk.DeleteRequest{Path: recipetest.ReadyOf2, Version: -1})
		require.NoError(t, err)
		if again {
			w.Write(recipetest.ReadyOf2, "")
		}
		for _, a := range as {
			recipetest.Fails(t, a, zkrecipes.ErrEvicted, zkrecipes.ErrUncertain)
		}
		synctest.Wait()
		require.Empty(t, w.Present())
		if again {
			return // that round works like any other
		}
		requests := w.Requests(func() {
			recipetest.Fails(t, w.WaitsIn(c, 3), zkconn.ErrContended)
		})
		require.LessOrEqual(t, requests[recipetest.OpJoinRound], zkconn.MaxTries+1)
		require.NoError(t, conn.Delete(recipetest.RoundOf2, -1))
		w.passes(3)
	})
}

// Somebody has created a child below ready, so the server does not delete it.
func TestReadyThatCannotBeDeletedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.waits(2)
		w.Write(recipetest.ReadyOf2+"/child", "")
		recipetest.Indexes(t, a, w.waits(2))
		require.ErrorContains(t, recipetest.Fails(t, w.waits(2), zk.ErrNotEmpty), "cannot be deleted")
	})
}
