package zkconn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Watches across lost connections. Each is armed again and misses no change in the
// meantime. zkconn_bare_watch_test.go shows what plain go-zookeeper does.

// createNodes creates znodes below path, with paths of the given length. There are
// just enough of them that arming a watch on each takes that many setWatches requests.
// chunk is the number of watches in one request, which go-zookeeper fills up to
// 128 KiB.
func createNodes(t testing.TB, conn *zk.Conn, path string, length, chunks int) (nodes []string, chunk int) {
	t.Helper()
	chunk = (128<<10 - 28) / (4 + length)
	for i := range chunk * chunks {
		nodes = append(nodes, fmt.Sprintf("%s/%0*d", path, length-len(path)-1, i))
	}
	recipetest.InChunks(t, conn, nodes, func(node string) any {
		return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
	})
	return nodes, chunk
}

// requireArmed requires that no watch has fired and that each is armed. It deletes the
// znodes to see the watches fire.
func requireArmed(t testing.TB, s *session.Session, look *zk.Conn, nodes []string, watches []*zkconn.Watch) {
	t.Helper()
	require.NoError(t, recipetest.ReadOnce(s, "/")) // after all events under way
	require.False(t, slices.ContainsFunc(watches, (*zkconn.Watch).HasFired))
	recipetest.DeleteNodes(t, look, nodes)
	recipetest.RequireFired(t, watches, jute.EventDeleted)
}

func TestRealB58QueuedRequestsWaitUntilTheWatchesAreArmed(t *testing.T) {
	const queued = 40 // more than go-zookeeper's channel holds
	p := harness.NewProxy(t, harness.Server())
	look, path := nodeOf(t)
	nodes, chunk := createNodes(t, look, path, 900, 3)
	_, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	watches := recipetest.WatchNodes(t, s, nodes)
	errs := make(chan error, queued)
	queue := func() {
		taps.Cut(t, p)
		for range queued {
			go func() { errs <- recipetest.ReadOnce(s, path) }()
		}
		harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(s.Inspect().Conn) == 16 })
	}

	// The next connection is lost before it has armed anything.
	queue()
	changed := nodes[:chunk*3/2]
	recipetest.ChangeNodes(t, look, changed)
	rule := p.On("setWatches", 1, harness.Hold)
	p.Reset()
	taps.Release()
	p.Await(rule)
	harness.Eventually(t, "go-zookeeper to write all requests", func() bool {
		in := s.Inspect()
		return in.Calls == queued && recipetest.QueuedRequests(in.Conn) == 0
	})
	require.Equal(t, 1, recipetest.Sum(p.Count()), "the other requests are held back")
	p.Drop()
	for range queued {
		require.Equal(t, zk.ErrConnectionClosed, <-errs)
	}
	recipetest.AwaitUp(t, s)
	recipetest.RequireFired(t, watches[:len(changed)], jute.EventDataChanged)

	// The connection after that arms the remaining watches before it lets requests pass.
	queue()
	taps.Release()
	for range queued {
		require.NoError(t, <-errs)
	}
	ops := slices.DeleteFunc(taps.Newest().Sent(), func(op string) bool { return op == "ping" })
	want := []string{"connect", "auth", "setWatches", "setWatches"}
	require.Equal(t, append(want, slices.Repeat([]string{"getData"}, queued)...), ops)
	requireArmed(t, s, look, nodes[len(changed):], watches[len(changed):])
}

// The connection is lost while the first watches of waiters of every side are queued
// inside go-zookeeper.
func TestB58WaitersThatAreQueuedSleepOnceTheWatchesAreArmed(t *testing.T) {
	const queued = 40 // more than go-zookeeper's channel holds
	p := harness.NewProxy(t, harness.Server())
	look, path := nodeOf(t)
	nodes, _ := createNodes(t, look, path, 900, 2)
	c, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	recipetest.WatchNodes(t, s, nodes)
	other := recipetest.Dial(t, nil)
	var holders []*zkrecipes.Lease
	line := func(i int) string { return fmt.Sprintf("%s-line-%d", path, i) }
	for i := range queued {
		side := recipetest.Sides[i%len(recipetest.Sides)]
		require.NoError(t, side.Ours(c, line(i)).Do(t.Context(), recipetest.Nothing))
		holders = append(holders, recipetest.Held(t, side.Theirs(other, line(i)).Lock))
	}

	// The connection is lost when the waiters have joined and have asked for one watch at
	// least. They start one after the other, because everything that is written together
	// with a getData is swallowed, too.
	var asked atomic.Int32
	taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
		if op != "getData" {
			return false, nil
		}
		asked.Add(1)
		return true, nil
	})
	var waiting []*harness.Call[*zkrecipes.Lease]
	for i := range queued {
		before := asked.Load()
		waiting = append(waiting, recipetest.Later(t, recipetest.Sides[i%len(recipetest.Sides)].Ours(c, line(i)).Lock))
		harness.Eventually(t, "the request for a watch", func() bool { return asked.Load() > before })
	}
	taps.Cut(t, p)
	taps.OnWrite(nil)
	harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(s.Inspect().Conn) == 16 })
	taps.Release()
	harness.Eventually(t, "asleep", func() bool { return recipetest.WatchesOf(c) == len(nodes)+2*queued && recipetest.Idle(c) })
	ops := slices.DeleteFunc(taps.Newest().Sent(), func(op string) bool { return op == "ping" })
	require.Equal(t, []string{"connect", "auth", "setWatches", "setWatches"}, ops[:4])
	require.NotContains(t, ops[4:], "setWatches")
	for i, a := range waiting {
		require.True(t, a.Waiting())
		require.NoError(t, holders[i].Release())
		require.NoError(t, a.Get().Release())
	}
	harness.Eventually(t, "watches", func() bool { return recipetest.WatchesOf(c) == len(nodes) })
}

func TestRealB59WatchesSurviveADropBetweenTwoChunks(t *testing.T) {
	const chunks = 4
	p := harness.NewProxy(t, harness.Server())
	look, path := nodeOf(t)
	nodes, chunk := createNodes(t, look, path, 126, chunks)
	require.GreaterOrEqual(t, len(nodes), 4000)
	_, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	watches := recipetest.WatchNodes(t, s, nodes)
	taps.Cut(t, p)
	recipetest.ChangeNodes(t, look, nodes[:len(nodes)/2])
	rule := p.On("setWatches", 2, harness.DropBefore)
	p.Reset()
	taps.Release()
	p.Await(rule)
	recipetest.AwaitUp(t, s)
	require.Greater(t, p.CountOf("setWatches"), 2)
	require.Less(t, p.CountOf("setWatches"), 2+chunks+1)
	recipetest.RequireFired(t, watches[:len(nodes)/2], jute.EventDataChanged)
	requireArmed(t, s, look, nodes[len(nodes)/2:], watches[len(nodes)/2:])
	t.Log(len(nodes), "watches,", chunk, "in a request")

	require.NoError(t, recipetest.ReadOnce(s, "/"))
	require.Zero(t, bareWatches(s.Inspect().Conn), "no watch is left in go-zookeeper")
	require.Empty(t, s.Inspect().Watches)
}

// The same with waiters for read/write locks. In each line all waiters are readers, or
// all are writers.
func TestB59WaitersOfEitherSideAreServedDespiteADropBetweenTwoChunks(t *testing.T) {
	const lines, each = 45, 25
	ctx := harness.Within(t, time.Minute)
	p := harness.NewProxy(t, harness.Server())
	look, path := nodeOf(t)
	c, s, taps := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
	other := recipetest.Dial(t, nil)
	line := func(i int) string { return fmt.Sprintf("%s-line-%d", path, i) }
	var holders []*zkrecipes.Lease
	var wg sync.WaitGroup
	var served atomic.Int32
	for i := range lines {
		holders = append(holders, recipetest.Held(t, zkrecipes.NewRWLock(other, line(i)).Lock))
		do := zkrecipes.NewRWLock(c, line(i)).Do
		if i%2 == 0 {
			do = zkrecipes.NewRWLock(c, line(i)).RDo
		}
		for range each {
			wg.Go(func() {
				if err := do(ctx, recipetest.Nothing); err != nil {
					t.Error(err)
				}
				served.Add(1)
			})
		}
	}
	// One on each waiter's own place, which the next writer shares, and one on the
	// holder's.
	watches := lines * (each + 1)
	harness.Eventually(t, "asleep", func() bool { return recipetest.WatchesOf(c) == watches && recipetest.Idle(c) })
	require.Zero(t, served.Load())

	taps.Cut(t, p)
	for _, l := range holders[:lines/2] { // half while the client is disconnected, half afterwards
		require.NoError(t, l.Release())
	}
	rule := p.On("setWatches", 2, harness.DropBefore)
	p.Reset()
	taps.Release()
	p.Await(rule)
	recipetest.AwaitUp(t, s)
	require.Greater(t, p.CountOf("setWatches"), 2)
	for _, l := range holders[lines/2:] {
		require.NoError(t, l.Release())
	}
	harness.Eventually(t, "all are served", func() bool { return served.Load() == lines*each })
	wg.Wait()
	for i := range lines {
		require.Empty(t, harness.Children(t, look, line(i)))
	}
	harness.Eventually(t, "watches", func() bool { return recipetest.WatchesOf(c) == 0 })
}

// dropsUnderLoad is the number of connections that are lost under load.
const dropsUnderLoad = 1000

func TestB55DropsUnderLoadLoseNoWakeUp(t *testing.T) {
	const clients, standing = 8, 50
	p := harness.NewProxy(t, harness.Server())
	look, path := nodeOf(t)
	other := path + "-line"
	var nodes []string
	for i := range standing {
		nodes = append(nodes, fmt.Sprintf("%s/standing-%d", path, i))
	}
	recipetest.InChunks(t, look, nodes, func(node string) any {
		return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
	})

	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
	}()
	var inside, grants, readers, writers, shared, wakeUps atomic.Int64
	var sessions []*session.Session
	var watches [][]*zkconn.Watch
	var ids []int64
	for i := range clients {
		c, s, _ := recipetest.DialTapped(t, p.Addr(), zkrecipes.Options{})
		sessions, ids = append(sessions, s), append(ids, s.ID())
		watches = append(watches, recipetest.WatchNodes(t, s, nodes))
		wg.Go(func() { // contends for a mutex
			for m := zkrecipes.NewMutex(c, other); !stopped(); {
				l, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				inside.Add(-1)
				grants.Add(1)
				if err := l.Release(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() { // contends for a read/write lock, in turn for each of its sides
			w := zkrecipes.NewRWLock(c, other+"-rw")
			for n := i; !stopped(); n++ {
				lock, mine := w.Lock, &writers
				if n%2 == 0 {
					lock, mine = w.RLock, &readers
				}
				l, err := lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if mine.Add(1); writers.Load() > 1 || writers.Load() == 1 && readers.Load() > 0 {
					t.Error("a writer does not hold the lock alone")
				}
				mine.Add(-1)
				shared.Add(1)
				if err := l.Release(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() { // watches a znode of its own until it is changed
			for n := 0; !stopped(); n++ {
				node := fmt.Sprintf("%s/%d-%d", path, i, n)
				if _, err := look.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Error(err)
					return
				}
				w, err := s.Watch(ctx, node)
				if err != nil {
					t.Error(err)
					return
				}
				if n%2 == 0 {
					look.Set(node, []byte("changed"), -1)
				} else {
					look.Delete(node, -1)
				}
				select {
				case <-w.Fired():
					wakeUps.Add(1)
				case <-time.After(20 * time.Second):
					t.Error("a lost wake-up")
					return
				case <-ctx.Done():
					return
				}
			}
		})
	}

	began := time.Now()
	for dropped := 0; dropped < dropsUnderLoad; {
		time.Sleep(time.Duration(1+rand.N(4)) * time.Millisecond) // the pace of the faults
		dropped += p.DropSome(func() bool { return rand.N(4) == 0 })
		require.Less(t, time.Since(began), 50*time.Second)
	}
	t.Logf("%d drops in %v, with %d and %d grants and %d wake-ups", dropsUnderLoad, time.Since(began), grants.Load(), shared.Load(), wakeUps.Load())
	close(stop)
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "a waiter is stuck", "in line: %q and %q", harness.Children(t, look, other), harness.Children(t, look, other+"-rw"))
	}

	recipetest.ChangeNodes(t, look, nodes)
	for i, s := range sessions {
		recipetest.RequireFired(t, watches[i], jute.EventDataChanged)
		require.Equal(t, ids[i], s.ID())
		require.False(t, s.IsOver())
	}
	require.Positive(t, grants.Load())
	require.Positive(t, shared.Load())
	require.Positive(t, wakeUps.Load())
	for _, lock := range []string{other, other + "-rw"} {
		harness.Eventually(t, "the line is empty", func() bool { return len(harness.Children(t, look, lock)) == 0 })
	}
}

func TestA02WaiterWhoseServerRestartsIsWokenInItsSession(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		holder := w.Excludes(w.Client(nil))
		c := w.Stranger(nil)
		waiting := w.Waits(c)
		id := recipetest.SessionID(c)
		w.Srv.Stop()
		time.Sleep(time.Second)
		require.NoError(t, w.Srv.Restart())
		time.Sleep(2 * time.Second)
		require.NoError(t, holder.Release())
		require.NoError(t, waiting.Get().Release())
		require.Equal(t, id, recipetest.SessionID(c))
	})
}

func nodeOf(t testing.TB) (conn *zk.Conn, path string) {
	t.Helper()
	conn, path = harness.Raw(t), harness.NewPath(t)
	harness.MakeParents(t, conn, path)
	return conn, path
}
