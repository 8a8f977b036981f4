package zkrecipes

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Helpers for tests on a zktest server in simulated time (testing/synctest).
// Faults hit a client between two given requests, and take no time.

// world is a zktest server in a bubble, its fault plan, and the path of the line
// that the test uses.
type world struct {
	t    *testing.T
	srv  *zktest.Server
	plan *zktest.Plan
	path string
}

// inBubble runs f in a bubble with a server of its own.
func inBubble(t *testing.T, f func(t *testing.T, w *world), opts ...zktest.Option) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, append([]zktest.Option{zktest.InMemory(), zktest.ContainerCheckInterval(time.Hour)}, opts...)...)
		f(t, &world{t: t, srv: srv, plan: srv.Plan(), path: "/line"})
	})
}

// client returns a Client that has used the line once. The lock must be free.
func (w *world) client(opts *Options) *Client {
	w.t.Helper()
	c := w.stranger(opts)
	require.NoError(w.t, NewMutex(c, w.path).Do(harness.Within(w.t, time.Minute), nothing))
	return c
}

// sideWorld is a world whose line is used by one side of a lock.
type sideWorld struct {
	*world
	side
}

// inBubble runs a test for this side in a bubble.
func (s side) inBubble(t *testing.T, f func(t *testing.T, w *sideWorld), opts ...zktest.Option) {
	inBubble(t, func(t *testing.T, w *world) { f(t, &sideWorld{w, s}) }, opts...)
}

// eachSideInBubble runs a test for each side, one after the other, with the same
// options. An option with a fault plan is of no use here, as the plan's counts would
// go on from one side to the next.
func eachSideInBubble(t *testing.T, f func(t *testing.T, w *sideWorld), opts ...zktest.Option) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { side.inBubble(t, f, opts...) })
	}
}

// holds takes the lock in c.
func (w *sideWorld) holds(c *Client) *Lease {
	w.t.Helper()
	return held(w.t, w.ours(c, w.path).Lock)
}

// excludes takes the lock in c as a rival: a holder that the side excludes.
func (w *sideWorld) excludes(c *Client) *Lease {
	w.t.Helper()
	return held(w.t, w.theirs(c, w.path).Lock)
}

// waits calls Lock in c and returns once the call sleeps, or holds the lock.
func (w *sideWorld) waits(c *Client) *harness.Call[*Lease] {
	a := later(w.t, w.ours(c, w.path).Lock)
	synctest.Wait()
	return a
}

// rivalWaits is like waits, for a rival.
func (w *sideWorld) rivalWaits(c *Client) *harness.Call[*Lease] {
	a := later(w.t, w.theirs(c, w.path).Lock)
	synctest.Wait()
	return a
}

// stranger returns a Client that has not used the line yet.
func (w *world) stranger(opts *Options) *Client {
	w.t.Helper()
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Dialer == nil {
		o.Dialer = w.srv.DialContext
	}
	c, err := Dial(w.t.Context(), []string{w.srv.Addr()}, &o)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	return c
}

// lockLater locks a Mutex in c and returns once the call sleeps, or holds the lock.
func (w *world) lockLater(c *Client) *harness.Call[*Lease] {
	a := lockLater(w.t, NewMutex(c, w.path))
	synctest.Wait()
	return a
}

// line returns the names of the places in the line, in order.
func (w *world) line() []line.PlaceName {
	ms := line.PlaceNames(w.srv.Children(w.path), line.LockKinds)
	slices.SortFunc(ms, line.PlaceName.Compare)
	return ms
}

// stands requires that a lease holds and its place exists.
func (w *world) stands(l *Lease) {
	w.t.Helper()
	require.NoError(w.t, l.Err())
	require.Contains(w.t, w.srv.Children(w.path), l.Check().Path[len(w.path)+1:])
}

// requests runs f and returns the number of requests of each operation that the
// server received until all goroutines of the bubble sleep again.
func (w *world) requests(f func()) map[string]int {
	synctest.Wait()
	before := w.srv.Counts()
	f()
	synctest.Wait()
	return w.srv.Counts().Sub(before).Requests
}

// sessionID returns the id of a client's session.
func sessionID(c *Client) int64 {
	s, _ := c.client.Session()
	return s.ID()
}

// insider returns a connection that may write what clients without Options.Auth create.
func (w *world) insider() *zk.Conn { return insider(w.t, w.bare()) }

// bare returns a bare go-zookeeper Conn.
func (w *world) bare() *zk.Conn { return harness.RawVia(w.t, w.srv.Dial, w.srv.Addr()) }

// away disconnects a client and refuses all connections until back is called.
func (w *world) away(c *Client) {
	w.t.Helper()
	w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
	require.True(w.t, w.srv.Disconnect(sessionID(c)))
	synctest.Wait()
	s, _ := c.client.Session()
	up, _ := s.Connected()
	require.False(w.t, up)
}

// back accepts connections again. It ends all other faults of the plan, too.
func (w *world) back() { w.plan.Stop() }
