package zkrecipes

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// Tests on a server inside the process, in simulated time: what befalls a
// client befalls it between two given requests, and takes no time.

// world is such a server, and the line that a test is about.
type world struct {
	t    *testing.T
	srv  *zktest.Server
	plan *zktest.Plan
	path string
}

// inBubble runs a test in a bubble of its own.
func inBubble(t *testing.T, f func(t *testing.T, w *world), opts ...zktest.Option) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, append([]zktest.Option{zktest.InMemory(), zktest.ContainerCheckInterval(time.Hour)}, opts...)...)
		f(t, &world{t: t, srv: srv, plan: srv.Plan(), path: "/line"})
	})
}

// client returns a Client that has used the line, which must be free.
func (w *world) client(opts *Options) *Client {
	w.t.Helper()
	c := w.stranger(opts)
	require.NoError(w.t, NewMutex(c, w.path).Do(within(w.t, time.Minute), nothing))
	return c
}

// sideWorld is a world for one side of a lock.
type sideWorld struct {
	*world
	side
}

// inBubble runs a test for one side.
func (s side) inBubble(t *testing.T, f func(t *testing.T, w *sideWorld), opts ...zktest.Option) {
	inBubble(t, func(t *testing.T, w *world) { f(t, &sideWorld{w, s}) }, opts...)
}

// eachSideInBubble runs a test for each side, one after the other, with the same
// options: none that gives a plan, which counts on.
func eachSideInBubble(t *testing.T, f func(t *testing.T, w *sideWorld), opts ...zktest.Option) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { side.inBubble(t, f, opts...) })
	}
}

// holds has c take the lock.
func (w *sideWorld) holds(c *Client) *Lease {
	w.t.Helper()
	return held(w.t, w.ours(c, w.path).Lock)
}

// excludes has c take the lock for a rival.
func (w *sideWorld) excludes(c *Client) *Lease {
	w.t.Helper()
	return held(w.t, w.theirs(c, w.path).Lock)
}

// waits has c wait for the lock, and returns when it sleeps, or has it.
func (w *sideWorld) waits(c *Client) *attempt {
	a := later(w.t, w.ours(c, w.path).Lock)
	synctest.Wait()
	return a
}

// rivalWaits is waits for a rival.
func (w *sideWorld) rivalWaits(c *Client) *attempt {
	a := later(w.t, w.theirs(c, w.path).Lock)
	synctest.Wait()
	return a
}

// stranger returns a Client that has done nothing yet.
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

// lockLater has c wait for the lock, and returns when it sleeps, or has it.
func (w *world) lockLater(c *Client) *attempt {
	a := lockLater(w.t, NewMutex(c, w.path))
	synctest.Wait()
	return a
}

// line returns the places, in order.
func (w *world) line() []member {
	ms := members(w.srv.Children(w.path), lockKinds)
	slices.SortFunc(ms, member.compare)
	return ms
}

// stands requires that a lease's place is there.
func (w *world) stands(l *Lease) {
	w.t.Helper()
	require.NoError(w.t, l.Err())
	require.Contains(w.t, w.srv.Children(w.path), l.Check().Path[len(w.path)+1:])
}

// requests runs f and returns what was asked for until all sleep again.
func (w *world) requests(f func()) map[string]int {
	synctest.Wait()
	before := w.srv.Counts()
	f()
	synctest.Wait()
	return w.srv.Counts().Sub(before).Requests
}

// sessionID returns the id of a client's session.
func sessionID(c *Client) int64 {
	s, _ := c.session()
	return s.wire.ID()
}

// stall is a client's way to the server, which can stand still: then nothing is
// read, nothing that is written arrives, and no deadline passes, as for a
// process that is suspended. What was sent to it is read when it goes on.
type stall struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	still bool
	deaf  bool // what comes now is lost, save for the end of a connection
	turn  sync.Cond
}

func newStall(srv *zktest.Server) *stall {
	s := &stall{dial: srv.DialContext}
	s.turn.L = &s.mu
	return s
}

// stop makes all stand still.
func (s *stall) stop() { s.set(true, false) }

// lose makes all stand still, and loses what comes from now on.
func (s *stall) lose() { s.set(true, true) }

// resume lets all go on.
func (s *stall) resume() { s.set(false, false) }

func (s *stall) set(still, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.still, s.deaf = still, deaf
	s.turn.Broadcast()
}

// Dial is Options.Dialer.
func (s *stall) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &stalled{Conn: nc, s: s}
	go c.receive()
	return c, nil
}

type stalled struct {
	net.Conn
	s      *stall
	buf    []byte
	err    error // that follows buf
	closed bool
}

func (c *stalled) receive() {
	for {
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		c.s.mu.Lock()
		if !c.s.deaf {
			c.buf = append(c.buf, b[:n]...)
		}
		c.err = err
		c.s.turn.Broadcast()
		c.s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *stalled) Read(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for !c.closed && (c.s.still || len(c.buf) == 0 && c.err == nil) {
		c.s.turn.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.buf) == 0:
		return 0, c.err
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

func (c *stalled) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	still := c.s.still
	c.s.mu.Unlock()
	if still {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *stalled) Close() error {
	c.s.mu.Lock()
	c.closed = true
	c.s.turn.Broadcast()
	c.s.mu.Unlock()
	return c.Conn.Close()
}

func (c *stalled) SetDeadline(time.Time) error     { return nil }
func (c *stalled) SetReadDeadline(time.Time) error { return nil }

// bare returns a Conn of go-zookeeper's own.
func (w *world) bare() *zk.Conn {
	w.t.Helper()
	conn, events, err := zk.Connect([]string{w.srv.Addr()}, 10*time.Second,
		zk.WithDialer(w.srv.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	require.NoError(w.t, err)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range events {
		}
	}()
	w.t.Cleanup(func() {
		conn.Close()
		<-drained
	})
	return conn
}

// away disconnects a client, and lets nobody connect until back is called.
func (w *world) away(c *Client) {
	w.t.Helper()
	w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
	require.True(w.t, w.srv.Disconnect(sessionID(c)))
	synctest.Wait()
	s, _ := c.session()
	up, _ := s.connected()
	require.False(w.t, up)
}

// back lets clients connect again. It ends all other faults too.
func (w *world) back() { w.plan.Stop() }
