package line_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Answers of servers that are overloaded, that have no quorum for a while, or that
// enforce a quota.

const errQuotaExceeded int32 = -125 // KeeperException.Code.QUOTAEXCEEDED

// onBusy runs a test for each such error, instead of the request and after it, and for
// each side of a lock.
func onBusy(t *testing.T, f func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault)) {
	recipetest.EachBusy(t, func(t *testing.T, answer zktest.Fault) {
		recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) { f(t, w, answer) })
	})
}

// paced requires that requests were retried with a pause before each retry. Two
// requests may be in flight at the same time.
func paced(t *testing.T, plan *zktest.Plan) {
	t.Helper()
	fired := plan.Fired()["answer before"] + plan.Fired()["answer after"]
	require.NotZero(t, fired)
	require.LessOrEqual(t, fired, 2*(int(recipetest.BusyFor/(recipetest.DefaultSessionTimeout/50))+1))
}

func TestB37RequestsOnTheWayToAGrantAreRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{recipetest.OpJoin, "getChildren2", "getData", opACLProbe} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
				c, other := w.Client(nil), w.Client(nil)
				holder := w.Excludes(other)
				answer.Op, answer.Times = op, -1
				w.Plan.Add(answer)
				a := w.Waits(c)
				time.Sleep(recipetest.BusyFor)
				w.Plan.Stop()
				time.Sleep(time.Second)
				require.True(t, a.Waiting())
				require.Len(t, w.Line(), 2, "one place for each client")
				if op == opACLProbe && !w.Signalled() {
					require.Zero(t, w.Plan.Fired()["answer before"]+w.Plan.Fired()["answer after"], "no client sends it")
				} else {
					paced(t, w.Plan)
				}
				require.NoError(t, holder.Release())
				l := a.Get()
				w.Stands(l)
				require.Len(t, w.Line(), 1)
				require.NoError(t, l.Release())
				require.Empty(t, w.Line())
			})
		})
	}
}

func TestB37RequestsForANewLineAreRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{"getData", "createContainer"} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
				w.Path = "/a/new/line"
				answer.Op, answer.Times = op, -1
				w.Plan.Add(answer)
				a := w.Waits(w.Stranger(nil))
				time.Sleep(recipetest.BusyFor)
				w.Plan.Stop()
				l := a.Get()
				paced(t, w.Plan)
				w.Stands(l)
				require.NoError(t, l.Release())
			})
		})
	}
}

func TestB37ReleaseIsRetriedUntilABusyServerCarriesItOut(t *testing.T) {
	onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
		c, other := w.Client(nil), w.Client(nil)
		l := w.Holds(c)
		a := w.RivalWaits(other)
		answer.Op, answer.Times = "multi", -1
		w.Plan.Add(answer)
		began := time.Now()
		require.NoError(t, l.Release())
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		time.Sleep(recipetest.BusyFor)
		w.Plan.Stop()
		paced(t, w.Plan)
		w.Stands(a.Get())
		require.Len(t, w.Line(), 1)
	})
}

func TestB37AWaitThatTimesOutLeavesNoPlaceOnABusyServer(t *testing.T) {
	onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
		c, other := w.Client(nil), w.Client(nil)
		holder := w.Excludes(other)
		answer.Op, answer.Times = "multi", -1
		w.Plan.Add(answer)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := w.Ours(c, w.Path).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(recipetest.BusyFor - 2*time.Second)
		w.Plan.Stop()
		paced(t, w.Plan)
		time.Sleep(time.Second)
		require.Len(t, w.Line(), 1)
		w.Stands(holder)
	})
}

func TestB37TryLockIsRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{recipetest.OpJoin, "getChildren2"} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
				m := w.Ours(w.Client(nil), w.Path)
				answer.Op, answer.Times = op, 3
				w.Plan.Add(answer)
				l, err := m.TryLock(harness.Within(t, time.Minute))
				require.NoError(t, err)
				w.Stands(l)
				require.Len(t, w.Line(), 1)
				require.NoError(t, l.Release())
				require.Empty(t, w.Line())
			})
		})
	}
}

func TestB37CommitOnABusyServerIsUncertainAndNotRetried(t *testing.T) {
	onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
		l := w.Holds(w.Client(nil))
		answer.Op = "multi"
		w.Plan.Add(answer)
		var err error
		requests := w.Requests(func() { _, err = l.Commit(t.Context(), zkrecipes.OpCreate("/a", nil, 0, nil)) })
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Equal(t, 1, recipetest.Sum(requests), "not repeated")
		w.Stands(l)
		_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/a", nil, 0, nil))
		if answer.After {
			require.ErrorIs(t, err, zk.ErrNodeExists)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, l.Release())
	})
}

func TestB37ReadsUnderALeaseAreRetriedOnABusyServer(t *testing.T) {
	onBusy(t, func(t *testing.T, w *recipetest.SideWorld, answer zktest.Fault) {
		l := w.Holds(w.Client(nil))
		answer.Op, answer.Times = "getData", 3
		w.Plan.Add(answer)
		answer.Op = "getChildren2"
		w.Plan.Add(answer)
		data, _, err := l.Get(t.Context(), w.Path)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(data, layout.Record(recipetest.LineOf(w.Ours(w.Stranger(nil), w.Path)).Recipe, "", "")), "%q", data)
		names, _, err := l.Children(t.Context(), w.Path)
		require.NoError(t, err)
		require.Len(t, names, 1)
		cs, err := w.Ours(w.Stranger(nil), w.Path).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.NoError(t, l.Release())
	})
}

// A server that enforces a quota refuses a write before it carries it out.
func TestB37ExceededQuotaIsAnErrorAtOnce(t *testing.T) {
	for _, op := range []string{recipetest.OpJoin, "createContainer"} {
		t.Run(op, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				m := w.Ours(w.Stranger(nil), w.Path)
				if op == recipetest.OpJoin {
					require.NoError(t, m.Do(harness.Within(t, time.Minute), recipetest.Nothing))
				}
				w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: op, Times: -1})
				for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){m.Lock, m.TryLock} {
					began := time.Now()
					_, err := lock(harness.Within(t, time.Minute))
					require.Zero(t, time.Since(began))
					var e *zkrecipes.Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, w.Path, e.Path)
					require.Contains(t, e.Op, "lock")
					require.ErrorContains(t, err, "-125")
				}
				require.Equal(t, 2, w.Plan.Fired()["answer before"], "one request for each call")
				synctest.Wait()
				require.Empty(t, w.Line())
				w.Plan.Stop()
				l := recipetest.Held(t, m.Lock)
				w.Stands(l)
				require.NoError(t, l.Release())
			})
		})
	}
}

func TestB37CommitBeyondTheQuotaChangesNothing(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		l := w.Holds(w.Client(nil))
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: "multi"})
		_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/a", nil, 0, nil))
		require.ErrorContains(t, err, "-125")
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		w.Stands(l)
		_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/a", nil, 0, nil))
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}

// When a quota of bytes is used up, servers refuse to set data, even to shorter data
// (ZooKeeperServer.checkQuota), but still delete znodes.
func TestB37ReleaseWhoseSignalExceedsTheQuotaDeletesThePlace(t *testing.T) {
	for _, side := range recipetest.Sides {
		if side.Release != recipetest.OpRelease {
			continue // it sends no signal
		}
		t.Run(side.Name, func(t *testing.T) {
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c, other := w.Client(nil), w.Client(nil)
				l := w.Holds(c)
				a := w.RivalWaits(other)
				w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: recipetest.OpRelease, Times: -1})
				require.NoError(t, l.Release())
				require.Len(t, w.Line(), 1)
				l = a.Get()
				w.Stands(l)
				require.NoError(t, l.Release())
				synctest.Wait()
				require.Empty(t, w.Line())
			})
		})
	}
}
