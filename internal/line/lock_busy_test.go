package line_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Answers of servers that are overloaded, that have no quorum for a while, or that
// enforce a quota. That one such answer changes nothing, TestLocksUnderEachFaultAtEachRequest
// shows for each request.

const errQuotaExceeded int32 = -125 // KeeperException.Code.QUOTAEXCEEDED

// A server is busy for some seconds. Requests are sent again, each after a pause, until it
// carries them out once.
func TestRequestsAreRetriedWhileAServerIsBusy(t *testing.T) {
	type world = *recipetest.SideWorld
	for name, tt := range map[string]struct {
		op  string                                   // empty: that of the side's release
		use func(t *testing.T, w world, busy func()) // calls busy once
	}{
		"a new line, read":    {"getData", newLine},
		"a new line, created": {recipetest.OpMakeContainer, newLine},
		"join":                {recipetest.OpJoin, joinsWhileBusy},
		"list":                {"getChildren2", joinsWhileBusy},
		"watch":               {"getData", joinsWhileBusy},
		"release": {"", func(t *testing.T, w world, busy func()) {
			l := w.Holds(w.Client(nil))
			a := w.RivalWaits(w.Stranger(nil))
			busy()
			began := time.Now()
			require.NoError(t, l.Release())
			require.Less(t, time.Since(began), time.Second)
			require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
			w.Stands(a.Get())
			require.Len(t, w.Line(), 1)
		}},
		"withdraw": {"delete", func(t *testing.T, w world, busy func()) {
			c, holder := w.Client(nil), w.Excludes(w.Client(nil))
			busy()
			_, err := w.Ours(c, w.Path).Lock(harness.Within(t, 2*time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(recipetest.BusyFor)
			require.Len(t, w.Line(), 1)
			w.Stands(holder)
		}},
	} {
		for _, side := range []recipetest.Side{recipetest.Sides[0], recipetest.Sides[3]} {
			t.Run(name+"/"+side.Name, func(t *testing.T) {
				recipetest.EachBusy(t, func(t *testing.T, answer zktest.Fault) {
					side.InBubble(t, func(t *testing.T, w world) {
						tt.use(t, w, func() {
							answer.Op, answer.Times = cmp.Or(tt.op, side.Release), -1
							w.Plan.Add(answer)
							time.AfterFunc(recipetest.BusyFor, w.Plan.Stop)
						})
						fired := w.Plan.Fired()["answer before"] + w.Plan.Fired()["answer after"]
						require.NotZero(t, fired)
						most := int(recipetest.BusyFor/(recipetest.DefaultSessionTimeout/50)) + 1
						require.LessOrEqual(t, fired, 2*most, "two requests may be in flight at the same time")
					})
				})
			})
		}
	}
}

func newLine(t *testing.T, w *recipetest.SideWorld, busy func()) {
	w.Path = "/a/new/line"
	busy()
	l := w.Holds(w.Stranger(nil))
	w.Stands(l)
	require.NoError(t, l.Release())
	require.Empty(t, w.Line())
}

func joinsWhileBusy(t *testing.T, w *recipetest.SideWorld, busy func()) {
	c, holder := w.Client(nil), w.Excludes(w.Client(nil))
	busy()
	a := w.Waits(c)
	time.Sleep(recipetest.BusyFor + time.Second)
	require.True(t, a.Waiting())
	require.Len(t, w.Line(), 2, "one place for each client")
	require.NoError(t, holder.Release())
	l := a.Get()
	w.Stands(l)
	require.Len(t, w.Line(), 1)
	require.NoError(t, l.Release())
	require.Empty(t, w.Line())
}

// When a quota of bytes is used up, servers refuse to set data, even to shorter data
// (ZooKeeperServer.checkQuota), but still delete znodes.
func TestAReleaseWhoseSignalExceedsTheQuotaDeletesThePlace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		a := w.LockLater(w.Stranger(nil))
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: recipetest.OpRelease, Times: -1})
		require.NoError(t, l.Release())
		require.Len(t, w.Line(), 1)
		l = a.Get()
		w.Stands(l)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.Empty(t, w.Line())
	})
}
