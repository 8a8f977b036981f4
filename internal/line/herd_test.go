package line_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Nobody wakes who cannot be granted, however many wait. internal/costs counts what else a lock
// costs.

// longSessions are those of clients that watch no place of their own, so that each event is one
// that wakes a waiter.
var longSessions = &zkrecipes.Options{SessionTimeout: recipetest.LongSession}

func TestAReleaseWakesOneWaiterAndTheHandOverTakesNoRequest(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				current := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(longSessions), w.Path))
				var waiters []*harness.Call[*zkrecipes.Lease]
				for range n {
					waiters = append(waiters, w.LockLater(w.Stranger(longSessions)))
				}
				watched := 0 // a waiter watches its own place from the beginning, and that fires as well
				for i, next := range waiters {
					before := w.Srv.Counts()
					require.NoError(t, current.Release())
					current = next.Get()
					synctest.Wait()
					did := w.Srv.Counts().Sub(before)
					require.Equal(t, 1, recipetest.Sum(did.Requests), "the release")
					require.Equal(t, 1+watched, recipetest.Sum(did.Events))
					watched = 1
					if i+1 < n {
						require.True(t, waiters[i+1].Waiting())
					}
				}
				require.NoError(t, current.Release())
			}, zktest.SessionTimeouts(0, recipetest.LongSession))
		})
	}
}

func TestAWritersReleaseWakesTheReadersThatMayGo(t *testing.T) {
	for _, n := range []int{1, 5, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				lock := func() *zkrecipes.RWLock { return zkrecipes.NewRWLock(w.Stranger(longSessions), "/rw") }
				readersWait := func(n int) (as []*harness.Call[*zkrecipes.Lease]) {
					for range n {
						as = append(as, recipetest.Later(t, lock().RLock))
						synctest.Wait()
					}
					return as
				}
				l := recipetest.Held(t, lock().Lock)
				readers := readersWait(n)
				writer := recipetest.Later(t, lock().Lock)
				synctest.Wait()
				more := readersWait(3)
				wakes := func(f func()) int {
					synctest.Wait()
					before := w.Srv.Counts().Events
					f()
					synctest.Wait()
					return w.Srv.Counts().Events["NodeDataChanged"] - before["NodeDataChanged"]
				}
				requests := w.Requests(func() {
					require.Equal(t, n, wakes(func() { require.NoError(t, l.Release()) }), "each reader, and nobody else")
				})
				require.Equal(t, 1, recipetest.Sum(requests), "no reader has sent anything")
				require.True(t, writer.Waiting())

				// The writer lists only when its predecessor leaves, the last of the readers.
				requests = w.Requests(func() {
					for _, a := range readers[:n-1] {
						require.NoError(t, a.Get().Release())
					}
				})
				require.Equal(t, n-1, recipetest.Sum(requests))
				requests = w.Requests(func() { require.NoError(t, readers[n-1].Get().Release()) })
				require.Equal(t, 1, requests["getChildren2"])
				require.Equal(t, 3+1, wakes(func() { require.NoError(t, writer.Get().Release()) }), "and the watch on its own place")
				for _, a := range more {
					require.NoError(t, a.Get().Release())
				}
			}, zktest.SessionTimeouts(0, recipetest.LongSession))
		})
	}
}
