package zkrecipes

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Answers of servers that are overloaded, that have no quorum for a while, or that
// enforce a quota.

const errQuotaExceeded int32 = -125 // KeeperException.Code.QUOTAEXCEEDED

// busy holds the errors after which the outcome of a request is unknown.
var busy = map[string]int32{
	"connection loss": jute.ErrConnectionLoss, "operation timeout": jute.ErrOperationTimeout, "throttled": jute.ErrThrottled,
}

// onBusy runs a test for each such error, instead of the request and after it, and for
// each side of a lock.
func onBusy(t *testing.T, f func(t *testing.T, w *sideWorld, answer zktest.Fault)) {
	eachBusy(t, func(t *testing.T, answer zktest.Fault) {
		eachSideInBubble(t, func(t *testing.T, w *sideWorld) { f(t, w, answer) })
	})
}

// eachBusy runs a test for each such error, which the server sends instead of carrying
// the request out, or after it.
func eachBusy(t *testing.T, f func(t *testing.T, answer zktest.Fault)) {
	for name, code := range busy {
		for when, after := range map[string]bool{"before": false, "after": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				f(t, zktest.Fault{Do: zktest.Answer, Code: code, After: after})
			})
		}
	}
}

// busyFor is how long the server answers with such an error in the tests below.
const busyFor = 5 * time.Second

// paced requires that requests were retried with a pause before each retry. Two
// requests may be in flight at the same time.
func paced(t *testing.T, plan *zktest.Plan) {
	t.Helper()
	fired := plan.Fired()["answer before"] + plan.Fired()["answer after"]
	require.NotZero(t, fired)
	require.LessOrEqual(t, fired, 2*(int(busyFor/(defaultSessionTimeout/50))+1))
}

func TestB37RequestsOnTheWayToAGrantAreRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{opJoin, "getChildren2", "getData", opACLProbe} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
				c, other := w.client(nil), w.client(nil)
				holder := w.excludes(other)
				answer.Op, answer.Times = op, -1
				w.plan.Add(answer)
				a := w.waits(c)
				time.Sleep(busyFor)
				w.plan.Stop()
				time.Sleep(time.Second)
				require.True(t, a.Waiting())
				require.Len(t, w.line(), 2, "one place for each client")
				if op == opACLProbe && !w.signalled() {
					require.Zero(t, w.plan.Fired()["answer before"]+w.plan.Fired()["answer after"], "no client sends it")
				} else {
					paced(t, w.plan)
				}
				require.NoError(t, holder.Release())
				l := a.Get()
				w.stands(l)
				require.Len(t, w.line(), 1)
				require.NoError(t, l.Release())
				require.Empty(t, w.line())
			})
		})
	}
}

func TestB37UncertainJoinOfAFreeLockOnABusyServerIsResolved(t *testing.T) {
	onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
		c := w.client(nil)
		answer.Op = opJoin
		search := answer
		search.Op, search.After = "sync", false
		w.plan.Add(answer, search)
		search.Op, search.Times = "getChildren2", 2
		w.plan.Add(search)
		var l *Lease
		requests := w.requests(func() { l = w.holds(c) })
		w.stands(l)
		require.Len(t, w.line(), 1)
		joins := 1
		if !answer.After {
			joins = 2
		}
		require.Equal(t, joins, requests[opJoin])
		require.Zero(t, requests["connect"], "on the same connection")
		require.NoError(t, l.Release())
		require.Empty(t, w.line())
	})
}

func TestB37RequestsForANewLineAreRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{"getData", "createContainer"} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
				w.path = "/a/new/line"
				answer.Op, answer.Times = op, -1
				w.plan.Add(answer)
				a := w.waits(w.stranger(nil))
				time.Sleep(busyFor)
				w.plan.Stop()
				l := a.Get()
				paced(t, w.plan)
				w.stands(l)
				require.NoError(t, l.Release())
			})
		})
	}
}

func TestB37ReleaseIsRetriedUntilABusyServerCarriesItOut(t *testing.T) {
	onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
		c, other := w.client(nil), w.client(nil)
		l := w.holds(c)
		a := w.rivalWaits(other)
		answer.Op, answer.Times = "multi", -1
		w.plan.Add(answer)
		began := time.Now()
		require.NoError(t, l.Release())
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, l.Err(), ErrReleased)
		time.Sleep(busyFor)
		w.plan.Stop()
		paced(t, w.plan)
		w.stands(a.Get())
		require.Len(t, w.line(), 1)
	})
}

func TestB37AWaitThatTimesOutLeavesNoPlaceOnABusyServer(t *testing.T) {
	onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
		c, other := w.client(nil), w.client(nil)
		holder := w.excludes(other)
		answer.Op, answer.Times = "multi", -1
		w.plan.Add(answer)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := w.ours(c, w.path).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(busyFor - 2*time.Second)
		w.plan.Stop()
		paced(t, w.plan)
		time.Sleep(time.Second)
		require.Len(t, w.line(), 1)
		w.stands(holder)
	})
}

func TestB37TryLockIsRetriedOnABusyServer(t *testing.T) {
	for _, op := range []string{opJoin, "getChildren2"} {
		t.Run(op, func(t *testing.T) {
			onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
				m := w.ours(w.client(nil), w.path)
				answer.Op, answer.Times = op, 3
				w.plan.Add(answer)
				l, err := m.TryLock(harness.Within(t, time.Minute))
				require.NoError(t, err)
				w.stands(l)
				require.Len(t, w.line(), 1)
				require.NoError(t, l.Release())
				require.Empty(t, w.line())
			})
		})
	}
}

func TestB37CommitOnABusyServerIsUncertainAndNotRetried(t *testing.T) {
	onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
		l := w.holds(w.client(nil))
		answer.Op = "multi"
		w.plan.Add(answer)
		var err error
		requests := w.requests(func() { _, err = l.Commit(t.Context(), OpCreate("/a", nil, 0, nil)) })
		require.ErrorIs(t, err, ErrUncertain)
		require.Equal(t, map[string]int{"multi(check,create)": 1}, requests, "not repeated")
		w.stands(l)
		_, err = l.Commit(t.Context(), OpCreate("/a", nil, 0, nil))
		if answer.After {
			require.ErrorIs(t, err, zk.ErrNodeExists)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, l.Release())
	})
}

func TestB37ReadsUnderALeaseAreRetriedOnABusyServer(t *testing.T) {
	onBusy(t, func(t *testing.T, w *sideWorld, answer zktest.Fault) {
		l := w.holds(w.client(nil))
		answer.Op, answer.Times = "getData", 3
		w.plan.Add(answer)
		answer.Op = "getChildren2"
		w.plan.Add(answer)
		data, _, err := l.Get(t.Context(), w.path)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(data, lineOf(w.ours(w.stranger(nil), w.path)).Record("", "")), "%q", data)
		names, _, err := l.Children(t.Context(), w.path)
		require.NoError(t, err)
		require.Len(t, names, 1)
		cs, err := w.ours(w.stranger(nil), w.path).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.NoError(t, l.Release())
	})
}

// A server that enforces a quota refuses a write before it carries it out.
func TestB37ExceededQuotaIsAnErrorAtOnce(t *testing.T) {
	for _, op := range []string{opJoin, "createContainer"} {
		t.Run(op, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				m := w.ours(w.stranger(nil), w.path)
				if op == opJoin {
					require.NoError(t, m.Do(harness.Within(t, time.Minute), nothing))
				}
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: op, Times: -1})
				for _, lock := range []func(context.Context) (*Lease, error){m.Lock, m.TryLock} {
					began := time.Now()
					_, err := lock(harness.Within(t, time.Minute))
					require.Zero(t, time.Since(began))
					var e *Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, w.path, e.Path)
					require.Contains(t, e.Op, "lock")
					require.ErrorContains(t, err, "-125")
				}
				require.Equal(t, 2, w.plan.Fired()["answer before"], "one request for each call")
				synctest.Wait()
				require.Empty(t, w.line())
				w.plan.Stop()
				l := held(t, m.Lock)
				w.stands(l)
				require.NoError(t, l.Release())
			})
		})
	}
}

func TestB37CommitBeyondTheQuotaChangesNothing(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		l := w.holds(w.client(nil))
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: "multi"})
		_, err := l.Commit(t.Context(), OpCreate("/a", nil, 0, nil))
		require.ErrorContains(t, err, "-125")
		require.NotErrorIs(t, err, ErrUncertain)
		w.stands(l)
		_, err = l.Commit(t.Context(), OpCreate("/a", nil, 0, nil))
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}

// When a quota of bytes is used up, servers refuse to set data, even to shorter data
// (ZooKeeperServer.checkQuota), but still delete znodes.
func TestB37ReleaseWhoseSignalExceedsTheQuotaDeletesThePlace(t *testing.T) {
	for _, side := range sides {
		if side.release != opRelease {
			continue // it sends no signal
		}
		t.Run(side.name, func(t *testing.T) {
			side.inBubble(t, func(t *testing.T, w *sideWorld) {
				c, other := w.client(nil), w.client(nil)
				l := w.holds(c)
				a := w.rivalWaits(other)
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: errQuotaExceeded, Op: opRelease, Times: -1})
				require.NoError(t, l.Release())
				require.Len(t, w.line(), 1)
				l = a.Get()
				w.stands(l)
				require.NoError(t, l.Release())
				synctest.Wait()
				require.Empty(t, w.line())
			})
		})
	}
}
