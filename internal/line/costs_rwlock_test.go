package line_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an RWLock costs, by the server's own counts: requests,
// commits, and events, each of which wakes a waiter.

// meter is a zktest server of its own, whose counts a test reads.
type meter struct {
	t    *testing.T
	ctx  context.Context
	srv  *zktest.Server
	path string
	last zktest.Counts
}

func newMeter(t *testing.T) *meter {
	srv := zktest.NewServer(t, zktest.SessionTimeouts(time.Second, recipetest.LongSession))
	return &meter{t: t, ctx: harness.Within(t, 60*time.Second), srv: srv, path: "/rw"}
}

func (k *meter) dial() *zkrecipes.Client {
	k.t.Helper()
	c := recipetest.DialTo(k.t, []string{k.srv.Addr()}, &zkrecipes.Options{SessionTimeout: recipetest.LongSession})
	recipetest.AskOnce(k.t, c)
	return c
}

// lock returns the lock in a session of its own that has used the line once.
func (k *meter) lock() *zkrecipes.RWLock {
	k.t.Helper()
	w := zkrecipes.NewRWLock(k.dial(), k.path)
	require.NoError(k.t, w.RDo(k.ctx, recipetest.Nothing))
	return w
}

// lockBehind is like lock but takes no lock, for use while a writer holds.
func (k *meter) lockBehind() *zkrecipes.RWLock {
	k.t.Helper()
	w := zkrecipes.NewRWLock(k.dial(), k.path)
	recipetest.LineOf(w).Remember(line.LineState{Version: -1})
	return w
}

// reset starts to count from zero.
func (k *meter) reset() { k.last = k.srv.Counts() }

// requests returns the number of requests since reset by operation, without pings.
func (k *meter) requests() map[string]int {
	m := k.srv.Counts().Sub(k.last).Requests
	maps.DeleteFunc(m, func(op string, n int) bool { return op == "ping" || n == 0 })
	return m
}

func (k *meter) commits() int           { return k.srv.Counts().Sub(k.last).Transactions }
func (k *meter) events() map[string]int { return k.srv.Counts().Sub(k.last).Events }

// waits calls lock in the background and returns once the call sleeps.
func (k *meter) waits(w *zkrecipes.RWLock, lock func(context.Context) (*zkrecipes.Lease, error)) *harness.Call[*zkrecipes.Lease] {
	k.t.Helper()
	n := len(k.srv.Children(k.path))
	a := recipetest.Later(k.t, lock)
	harness.Eventually(k.t, "in line", func() bool { return len(k.srv.Children(k.path)) == n+1 })
	recipetest.Sleeps(k.t, recipetest.ClientOf(recipetest.LineOf(w).Client), 2)
	return a
}

func TestAWritersReleaseWakesTheReadersThatMayGo(t *testing.T) {
	for _, n := range []int{1, 5, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			k := newMeter(t)
			holder, behind := k.lock(), k.lock()
			l := recipetest.Held(t, holder.Lock)
			var readers, more []*harness.Call[*zkrecipes.Lease]
			for range n {
				w := k.lockBehind()
				readers = append(readers, k.waits(w, w.RLock))
			}
			writer := k.waits(behind, behind.Lock)
			for range 3 {
				w := k.lockBehind()
				more = append(more, k.waits(w, w.RLock))
			}
			k.reset()
			require.NoError(t, l.Release())
			for _, a := range readers {
				a.Get()
			}
			require.Equal(t, 1, recipetest.Sum(k.requests()), "no reader has sent anything")
			require.Equal(t, n, recipetest.Sum(k.events()), "each reader wakes once, and nobody else")
			require.True(t, writer.Waiting())

			// The writer lists again only when its predecessor leaves.
			k.reset()
			for _, a := range readers[:n-1] {
				require.NoError(t, a.Get().Release())
			}
			require.Equal(t, n-1, k.commits())
			require.Zero(t, k.requests()["getChildren2"])
			// The readers' watches on their own places fire.
			require.Equal(t, n-1, k.events()["NodeDeleted"])
			require.NoError(t, readers[n-1].Get().Release())
			w := writer.Get()
			require.Equal(t, 1, k.requests()["getChildren2"])
			require.NoError(t, w.Release())
			for _, a := range more {
				a.Get()
			}
			require.Equal(t, n+2, recipetest.Sum(k.requests()), "releases, and that listing")
			for _, a := range more {
				require.NoError(t, a.Get().Release())
			}
		})
	}
}

// In whatever order the readers leave, a waiting writer lists once each time its
// predecessor leaves.
func TestAWriterBehindReadersListsWhenItsPredecessorLeaves(t *testing.T) {
	k := newMeter(t)
	readers, w := k.lock(), k.lock()
	var leases []*zkrecipes.Lease
	for range 5 {
		leases = append(leases, recipetest.Held(t, readers.RLock))
	}
	k.reset()
	writer := k.waits(w, w.Lock)
	for _, leave := range []struct {
		reader int
		lists  bool
	}{{1, false}, {4, true}, {0, false}, {3, true}} { // the writer waits for 4, then 3, then 2
		k.reset()
		require.NoError(t, leases[leave.reader].Release())
		want := 0
		if leave.lists {
			want = 1
		}
		harness.Eventually(t, "the requests", func() bool { return k.requests()["getChildren2"] == want && k.requests()["getData"] == want })
		recipetest.Sleeps(t, recipetest.ClientOf(recipetest.LineOf(w).Client), 2)
		require.True(t, writer.Waiting())
	}
	k.reset()
	require.NoError(t, leases[2].Release())
	l := writer.Get()
	require.Equal(t, 1, k.requests()["getChildren2"])
	require.NoError(t, l.Release())
}

func TestADowngradeWakesEachWaiterOnce(t *testing.T) {
	k := newMeter(t)
	holder := k.lock()
	l := recipetest.Held(t, holder.Lock)
	var readers []*harness.Call[*zkrecipes.Lease]
	for range 4 {
		w := k.lockBehind()
		readers = append(readers, k.waits(w, w.RLock))
	}
	k.reset()
	require.NoError(t, holder.Downgrade(k.ctx, l))
	for _, a := range readers {
		a.Get()
	}
	require.Equal(t, 4, k.requests()["getChildren2"], "each reader lists to find its predecessor")
	require.Equal(t, 4, k.events()["NodeDeleted"], "the writer sends no signal")
	require.Equal(t, 4, recipetest.Sum(k.events()), "each wakes once")
	for _, a := range readers {
		require.NoError(t, a.Get().Release())
	}
	require.NoError(t, l.Release())
}

// While a thousand readers hold, another reader and a waiting writer cost no more
// than while one reader holds.
func TestCostsDoNotGrowWithTheNumberOfReaders(t *testing.T) {
	const n = 1000
	k := newMeter(t)
	var leases [n]*zkrecipes.Lease
	var wg sync.WaitGroup
	for i := range 10 {
		w := k.lock()
		wg.Go(func() {
			for j := i; j < n; j += 10 {
				l, err := w.RLock(k.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				leases[j] = l
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	require.Len(t, k.srv.Children(k.path), n)
	newcomer := k.lock()
	waiting := k.lock()

	k.reset()
	l := recipetest.Held(t, newcomer.RLock)
	require.NoError(t, l.Release())
	require.Equal(t, 3, recipetest.Sum(k.requests()))
	require.Equal(t, 2, k.commits())

	last := recipetest.Held(t, newcomer.RLock) // the one that the writer waits for
	k.reset()
	writer := k.waits(waiting, waiting.Lock)
	require.Zero(t, k.requests()["getChildren2"], "it reads who joined last, and watches its own place and its predecessor's")
	require.Equal(t, 3, k.requests()["getData"])

	k.reset()
	for i := range 10 {
		wg.Go(func() {
			for j := i; j < n; j += 10 {
				if err := leases[j].Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.True(t, writer.Waiting())
	require.Equal(t, n, recipetest.Sum(k.requests()), "no event wakes the writer")
	require.NoError(t, last.Release())
	w := writer.Get()
	require.Equal(t, 1, k.requests()["getChildren2"], "and now it lists")
	require.NoError(t, w.Release())
}
