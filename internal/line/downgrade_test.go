package line_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Downgrade, from writer to reader. What each fault at each of its requests does is in the
// table of faults (faults_test.go).

// reads requires that l holds as a reader.
func reads(w *recipetest.RWWorld, l *zkrecipes.Lease) {
	w.T.Helper()
	w.Stands(l)
	require.Contains(w.T, l.Check().Path, "-__READ__")
	_, err := l.Commit(w.T.Context())
	require.NoError(w.T, err)
	_, err = w.OurLock.Lock(l.Reentrant(w.T.Context()))
	require.ErrorIs(w.T, err, zkrecipes.ErrUpgrade)
}

// holdsNothing requires that our client waits for nothing that it holds when it is shut down.
func holdsNothing(w *recipetest.RWWorld) {
	w.T.Helper()
	require.NoError(w.T, w.C.Shutdown(harness.Within(w.T, time.Minute)))
}

func TestDowngradeKeepsTheWritersPlace(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		work, token, guard := l.Context(t.Context()), l.Token(), l.Check()
		waiting := w.MustWait(w.TheirLock.Lock)
		before := w.Line()
		requests := w.Requests(func() {
			require.NoError(t, l.Downgrade(t.Context()))
			require.NoError(t, l.Downgrade(t.Context()), "it is a reader already")
		})
		require.Equal(t, 1, requests[recipetest.OpDowngrade])
		require.Equal(t, 1+3, recipetest.Sum(requests), "the waiter lists, and sets both watches on another place")
		line := w.Line()
		require.Len(t, line, 2)
		require.Equal(t, strings.Replace(before[0].Name, "__WRIT__", "__READ__", 1), line[0].Name)
		require.Equal(t, before[1].Name, line[1].Name)
		require.Equal(t, token, l.Token(), "a new token would exceed that of the writer behind")
		require.NoError(t, work.Err())
		cs, err := w.OurLock.Contenders(t.Context())
		require.NoError(t, err)
		require.True(t, cs[0].Held && cs[0].Reader)
		require.False(t, cs[1].Held)

		_, err = w.Bare().Multi(guard)
		require.ErrorIs(t, err, zk.ErrNoNode, "the writer's Check")
		_, err = w.Bare().Multi(l.Check())
		require.NoError(t, err)
		reads(w, l)
		_, err = w.OurLock.Lock(work)
		require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
		require.True(t, waiting.Waiting())

		require.Equal(t, 1, w.Requests(func() { require.NoError(t, l.Release()) })[recipetest.OpReadRelease])
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
		require.Greater(t, waiting.Get().Token(), token)
	})
}

func TestDowngradeWithReentriesOpenIsAnError(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		for _, enter := range []func(context.Context) (*zkrecipes.Lease, error){w.OurLock.Lock, w.OurLock.RLock} {
			again, err := enter(l.Reentrant(t.Context()))
			require.NoError(t, err)
			require.Empty(t, w.Requests(func() {
				for _, l := range []*zkrecipes.Lease{l, again} {
					require.EqualError(t, l.Downgrade(t.Context()), "zkrecipes: downgrade /line: re-entries are open")
				}
			}))
			require.NoError(t, again.Release())
			require.ErrorIs(t, again.Downgrade(t.Context()), zkrecipes.ErrReleased, "although l still holds")
		}
		again, err := w.OurLock.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		ctx := recipetest.Hooked{Context: t.Context(), F: func() { _ = again.Release() }} // after Downgrade has found it held
		require.ErrorIs(t, again.Downgrade(ctx), zkrecipes.ErrReleased)
		require.Contains(t, l.Check().Path, "-__WRIT__", "the other lease still writes")

		require.NoError(t, l.Downgrade(t.Context()))
		reads(w, l)
		read, err := w.OurLock.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, read.Downgrade(t.Context()), "it is a reader already")
		require.NoError(t, l.Release())
		w.Stands(read)
	})
}

// A lease that cannot be downgraded
func TestOnlyAHeldWritersLeaseOfAnRWLockCanBeDowngraded(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		mutex := recipetest.LockOn(t, zkrecipes.NewMutex(w.C, "/m"))
		require.EqualError(t, mutex.Downgrade(t.Context()), "zkrecipes: downgrade /m: not a lease of an RWLock")
		require.NoError(t, mutex.Err())

		l := recipetest.Held(t, w.OurLock.RLock)
		require.Empty(t, w.Requests(func() { require.NoError(t, l.Downgrade(t.Context()), "a reader's already") }))
		writer := recipetest.Held(t, zkrecipes.NewRWLock(w.C, "/third").Lock)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.Requests(func() { require.ErrorIs(t, writer.Downgrade(ended), context.Canceled) }))
		require.Contains(t, writer.Check().Path, "__WRIT__")
		var none context.Context
		require.EqualError(t, l.Downgrade(none), "zkrecipes: downgrade /line: nil context")
		require.NoError(t, l.Release())
		require.EqualError(t, l.Downgrade(t.Context()), "zkrecipes: downgrade /line: lease released")
		lost := recipetest.Held(t, w.OurLock.Lock)
		w.Expire(w.C)
		require.ErrorIs(t, lost.Downgrade(t.Context()), zkrecipes.ErrLost)
	})
}

// Downgrade deletes the writer's place. The event of a watch on that place, at once or after a
// reconnect, does not concern the reader's place.
func TestADowngradedLeaseOutlivesTheEventsOfTheWritersPlace(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		time.Sleep(recipetest.DefaultSessionTimeout / 5)
		synctest.Wait()
		require.Equal(t, []string{l.Check().Path}, w.SessionOf(w.C).Watches)
		writer := w.MustWait(w.TheirLock.Lock)
		require.NoError(t, l.Downgrade(t.Context()))
		reads(w, l)
		for range 5 {
			w.Srv.Disconnect(recipetest.SessionID(w.C))
			time.Sleep(time.Second)
			reads(w, l)
		}
		w.LastReleased(writer, l)
	})
}

func TestConcurrentDowngradesSendOneRequest(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		var calls []*harness.Call[struct{}]
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() {
			for range 20 {
				calls = append(calls, harness.GoErr(t, l.Downgrade))
			}
		})))
		for _, call := range calls {
			call.Get()
		}
	})
}

func TestDowngradeStartedWhileDisconnectedContinuesInTheBackground(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		w.Away(w.C)
		begun := harness.GoErr(t, l.Downgrade)
		synctest.Wait()
		begun.Cancel(nil)
		_, err := begun.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Err())
		_, err = w.OurLock.Lock(l.Reentrant(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrUpgrade, "it is becoming a reader")
		read, err := w.OurLock.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, read.Release())
		w.Back()
		require.NoError(t, l.Downgrade(t.Context()), "it waits for the first Downgrade")
		reads(w, l)
	})
}

// The commit was not sent, so its error must not say that it may have been applied.
func TestCommitCancelledDuringADowngradeIsNotSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		h := recipetest.Grab(t, w.NewCore().RWLine(w.Path).Acquire, layout.KindWrite)
		writer := line.PlaceOf(h.Grant)
		reader := writer.AsReader()
		reply := make(chan struct{})
		downgrade := harness.GoErr(t, func(ctx context.Context) error {
			return h.Replace(ctx, reader, func() error {
				defer func() { <-reply }()
				return writer.Replace(reader)
			})
		})
		synctest.Wait()
		began := time.Now()
		_, err := h.Commit(harness.Within(t, time.Second), []any{&zk.CreateRequest{Path: "/data", Acl: zk.WorldACL(zk.PermAll)}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Equal(t, time.Second, time.Since(began), "it waits no longer than its context")
		close(reply)
		downgrade.Get()
		require.False(t, w.Has("/data"))
		require.Contains(t, h.Grant.Path(), "-__READ__")
		_, err = h.Commit(t.Context(), nil)
		require.NoError(t, err)
	})
}

func TestReentryThatMeetsADowngradeHoldsOrFails(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		for i := range 100 {
			l := recipetest.Held(t, w.OurLock.Lock)
			enter := w.OurLock.Lock
			if i%2 == 1 {
				enter = w.OurLock.RLock
			}
			done := harness.GoErr(t, l.Downgrade)
			for range i {
				runtime.Gosched()
			}
			again, err := enter(l.Reentrant(t.Context()))
			_, moved := done.Wait()
			switch {
			case err != nil:
				require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
				require.NoError(t, moved)
			case i%2 == 0:
				require.ErrorContains(t, moved, "re-entries are open", "the writer's re-entry is still held")
				require.Contains(t, again.Check().Path, "__WRIT__")
			}
			for _, l := range []*zkrecipes.Lease{l, again} {
				if l != nil {
					_, err := l.Commit(t.Context())
					require.NoError(t, err)
					require.NoError(t, l.Release())
				}
			}
		}
		require.Empty(t, w.Line())
		holdsNothing(w)
	})
}

// The reply is lost, and the line's ACL changes before the request is sent again. The
// server checks the ACL first, so it never returns NodeExists. If the client cannot learn the
// outcome at all, the lease is lost: a holder that went on as a writer might have no place.
func TestDowngradeWhoseSecondAttemptIsRefusedIsResolvedOrLost(t *testing.T) {
	for _, applied := range []bool{true, false} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint("applied: ", applied, ", known: ", known), func(t *testing.T) {
				recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
					l := recipetest.Held(t, w.OurLock.Lock)
					work, next := l.Context(t.Context()), w.MustWait(w.TheirLock.Lock)
					look := zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "multi(check)"}
					if known {
						look = zktest.Fault{Do: zktest.Drop, After: true, Op: "multi(check)"}
					}
					w.Plan.Add(look, zktest.Fault{Do: zktest.Drop, After: applied, Op: recipetest.OpDowngrade},
						zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: recipetest.OpDowngrade, Skip: 1, Times: -1})
					err := l.Downgrade(t.Context())
					synctest.Wait()
					switch {
					case !known:
						require.ErrorIs(t, err, zkrecipes.ErrLost)
						require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
						require.Len(t, w.Line(), 1, "only the next place is left")
						w.Stands(next.Get())
						return
					case applied:
						require.NoError(t, err)
						reads(w, l)
					default:
						require.ErrorIs(t, err, zk.ErrNoAuth)
						require.Contains(t, l.Check().Path, "__WRIT__")
						w.Stands(l)
					}
					require.Len(t, w.Line(), 2, "no third place is left")
					w.LastReleased(next, l)
					holdsNothing(w)
				})
			})
		}
	}
}

// Only the race detector can see it.
func TestALossDuringADowngradeIsNoDataRace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := w.NewCore()
		for range 50 {
			h := recipetest.Grab(t, core.RWLine(w.Path).Acquire, layout.KindWrite)
			lost := make(chan struct{})
			go func() {
				defer close(lost)
				h.Grant.End(zkrecipes.ErrLost)
			}()
			if err := line.Downgrade(t.Context(), h); err != nil { // behind its look at the lease
				require.ErrorIs(t, err, zkrecipes.ErrLost)
			}
			<-lost
			synctest.Wait()
			require.Zero(t, core.Held.Count())
		}
	})
}
