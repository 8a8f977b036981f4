package recipetest

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// World is a zktest server in a bubble, its fault plan, and the path of the line
// that the test uses.
type World struct {
	T    *testing.T
	Srv  *zktest.Server
	Plan *zktest.Plan
	Path string

	clients *sync.Map // by the recipes that use them
}

// uses notes the client of a recipe, and returns the recipe.
func uses[R any](w *World, recipe R, c *zkrecipes.Client) R {
	w.clients.Store(any(recipe), c)
	return recipe
}

// ClientOf returns the client of a recipe that the world has made.
func (w *World) ClientOf(recipe any) *zkrecipes.Client {
	w.T.Helper()
	c, ok := w.clients.Load(recipe)
	require.True(w.T, ok, "the test has made it itself")
	return c.(*zkrecipes.Client)
}

// InBubble runs f in a bubble with a server of its own.
func InBubble(t *testing.T, f func(t *testing.T, w *World), opts ...zktest.Option) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, append([]zktest.Option{zktest.InMemory(), zktest.ContainerCheckInterval(time.Hour)}, opts...)...)
		f(t, &World{T: t, Srv: srv, Plan: srv.Plan(), Path: "/line", clients: new(sync.Map)})
	})
}

// EachInBubble runs f for each case, in a bubble of its own.
func EachInBubble[C any](t *testing.T, cases map[string]C, f func(t *testing.T, w *World, c C), opts ...zktest.Option) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { InBubble(t, func(t *testing.T, w *World) { f(t, w, c) }, opts...) })
	}
}

// Client returns a Client that has used the line once. The lock must be free.
func (w *World) Client(opts *zkrecipes.Options) *zkrecipes.Client {
	w.T.Helper()
	c := w.Stranger(opts)
	require.NoError(w.T, zkrecipes.NewMutex(c, w.Path).Do(harness.Within(w.T, time.Minute), Nothing))
	return c
}

// SideWorld is a world whose line is used by one side of a lock.
type SideWorld struct {
	*World
	Side
}

// InBubble runs a test for this side in a bubble.
func (s Side) InBubble(t *testing.T, f func(t *testing.T, w *SideWorld), opts ...zktest.Option) {
	InBubble(t, func(t *testing.T, w *World) { f(t, &SideWorld{w, s}) }, opts...)
}

// EachSideInBubble runs a test for each side, one after the other, with the same
// options. An option with a fault plan is of no use here, as the plan's counts would
// go on from one side to the next.
func EachSideInBubble(t *testing.T, f func(t *testing.T, w *SideWorld), opts ...zktest.Option) {
	for _, side := range Sides {
		t.Run(side.Name, func(t *testing.T) { side.InBubble(t, f, opts...) })
	}
}

// Holds takes the lock in c.
func (w *SideWorld) Holds(c *zkrecipes.Client) *zkrecipes.Lease {
	w.T.Helper()
	return Held(w.T, w.Ours(c, w.Path).Lock)
}

// Excludes takes the lock in c as a rival: a holder that the side excludes.
func (w *SideWorld) Excludes(c *zkrecipes.Client) *zkrecipes.Lease {
	w.T.Helper()
	return Held(w.T, w.Theirs(c, w.Path).Lock)
}

// settled returns a call once it sleeps, or has returned.
func settled[R any](a *harness.Call[R]) *harness.Call[R] {
	synctest.Wait()
	return a
}

// Waits calls Lock in c and returns once the call sleeps, or holds the lock.
func (w *SideWorld) Waits(c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
	return settled(Later(w.T, w.Ours(c, w.Path).Lock))
}

// RivalWaits is like waits, for a rival.
func (w *SideWorld) RivalWaits(c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
	return settled(Later(w.T, w.Theirs(c, w.Path).Lock))
}

// Stranger returns a Client that has not used the line yet.
func (w *World) Stranger(opts *zkrecipes.Options) *zkrecipes.Client {
	w.T.Helper()
	return w.Tuned(opts, func(*tuning.Constants) {})
}

// Tuned returns a Client that uses the constants that change leaves.
func (w *World) Tuned(opts *zkrecipes.Options, change func(*tuning.Constants)) *zkrecipes.Client {
	w.T.Helper()
	o := zkrecipes.Options{}
	if opts != nil {
		o = *opts
	}
	if o.Dialer == nil {
		o.Dialer = w.Srv.DialContext
	}
	c, err := zkrecipes.Dial(tuning.With(w.T.Context(), change), []string{w.Srv.Addr()}, &o)
	require.NoError(w.T, err)
	w.T.Cleanup(func() { c.Close() })
	return c
}

// LockLater locks a Mutex in c and returns once the call sleeps, or holds the lock.
func (w *World) LockLater(c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
	return settled(LockLater(w.T, zkrecipes.NewMutex(c, w.Path)))
}

// Line returns the names of the places in the line, in order.
func (w *World) Line() []layout.PlaceName {
	ms := layout.ParsePlaces(w.Srv.Children(w.Path), layout.LockKinds)
	slices.SortFunc(ms, layout.PlaceName.Compare)
	return ms
}

// Stands requires that a lease holds and its place exists.
func (w *World) Stands(l *zkrecipes.Lease) {
	w.T.Helper()
	require.NoError(w.T, l.Err())
	require.Contains(w.T, w.Srv.Children(w.Path), l.Check().Path[len(w.Path)+1:])
}

// Requests runs f and returns the number of requests of each operation that the
// server received until all goroutines of the bubble sleep again.
func (w *World) Requests(f func()) map[string]int {
	synctest.Wait()
	before := w.Srv.Counts()
	f()
	synctest.Wait()
	return w.Srv.Counts().Sub(before).Requests
}

// Sum returns the number of all requests but pings.
func Sum(requests map[string]int) (n int) {
	for op, k := range requests {
		if op != "ping" {
			n += k
		}
	}
	return n
}

// Writes returns the number of the requests that change something, or would if the server did
// not refuse them.
func Writes(requests map[string]int) (n int) {
	for op, k := range requests {
		switch op {
		case "getData", "getChildren", "getChildren2", "exists", "sync", "ping", "connect", "auth", "setWatches", "getEphemerals":
		default:
			n += k
		}
	}
	return n
}

// SessionID returns the id of a client's session, 0 if it has none.
func SessionID(c *zkrecipes.Client) int64 { return c.Status().Session }

// SessionOf returns what the server knows of a client's session.
func (w *World) SessionOf(c *zkrecipes.Client) zktest.Session {
	id := SessionID(c)
	for _, s := range w.Srv.Sessions() {
		if s.ID == id {
			return s
		}
	}
	return zktest.Session{}
}

// Bare returns a bare go-zookeeper Conn.
func (w *World) Bare() *zk.Conn { return harness.RawVia(w.T, w.Srv.Dial, w.Srv.Addr()) }

// Away disconnects a client and refuses all connections until back is called.
func (w *World) Away(c *zkrecipes.Client) {
	w.T.Helper()
	w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
	require.True(w.T, w.Srv.Disconnect(SessionID(c)))
	synctest.Wait()
	require.False(w.T, c.Status().Connected)
}

// AwayBehindTheReplyTo calls start, which makes c send a request of that kind, and has the connection,
// over link, lost right behind the reply to it. It calls meanwhile before c connects again.
func (w *World) AwayBehindTheReplyTo(c *zkrecipes.Client, link *harness.Link, op, path string, start, meanwhile func()) {
	w.T.Helper()
	done := w.Plan.Fired()["delay before"] + 1
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: time.Second})
	start()
	for i := 0; w.Plan.Fired()["delay before"] < done; i++ {
		require.Less(w.T, i, 10_000, "no %s of %s", op, path)
		time.Sleep(10 * time.Millisecond)
	}
	link.Stop()
	time.Sleep(2 * time.Second)
	w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
	require.True(w.T, w.Srv.Disconnect(SessionID(c)))
	synctest.Wait()
	// One goroutine runs at a time: the one that reads sees the end of the connection before the caller
	// has the reply.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	link.Resume()
	synctest.Wait()
	require.False(w.T, c.Status().Connected)
	meanwhile()
	w.Back()
	synctest.Wait()
}

// Back accepts connections again. It ends all other faults of the plan, too.
func (w *World) Back() { w.Plan.Stop() }
