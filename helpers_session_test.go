package zkrecipes

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Connections that a test can look into.

// sessTaps makes connections to one server, whatever the address, and keeps
// them with what was written to each.
type sessTaps struct {
	mu     sync.Mutex
	target string
	taps   []*sessTap
	addrs  []string      // asked for
	thaw   chan struct{} // non-nil: dialling waits until it is closed
	// write, if not nil, is asked before each frame: it may change the frame,
	// swallow it, or fail.
	write func(c *sessTap, op string, frame []byte) (swallow bool, err error)
}

// sessTap is one of them.
type sessTap struct {
	net.Conn
	all    *sessTaps
	number int // from 1

	mu       sync.Mutex
	ops      []string
	lastSeen int64         // the zxid in its ConnectRequest
	patience time.Duration // of the first SetReadDeadline
	heard    time.Time     // when something was last read
	bytes    int           // read
	closed   time.Time     // zero while open
}

func (a *sessTaps) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a.mu.Lock()
	a.addrs = append(a.addrs, addr)
	target, thaw := a.target, a.thaw
	a.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, target)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &sessTap{Conn: nc, all: a, number: len(a.taps) + 1}
	a.taps = append(a.taps, c)
	return c, nil
}

// hold makes dialling wait, as if the network was away.
func (a *sessTaps) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.thaw = make(chan struct{})
}

func (a *sessTaps) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.thaw)
	a.thaw = nil
}

// away cuts the connections of a client and has it dial in vain: go-zookeeper is
// through with them, and what is asked of it from now on is queued.
func (a *sessTaps) away(t testing.TB, p *proxy) {
	t.Helper()
	n := len(a.asked())
	a.hold()
	p.drop()
	eventually(t, "dialling", func() bool { return len(a.asked()) > n })
}

// onWrite sets write for frames from now on.
func (a *sessTaps) onWrite(f func(c *sessTap, op string, frame []byte) (bool, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write = f
}

// asked returns the addresses that were dialled.
func (a *sessTaps) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.addrs)
}

func (a *sessTaps) all() []*sessTap {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.taps)
}

// newest returns the connection that was made last.
func (a *sessTaps) newest() *sessTap {
	taps := a.all()
	return taps[len(taps)-1]
}

func (c *sessTap) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 12; {
		n := min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))
		frame := rest[:n]
		rest = rest[n:]
		op := "connect"
		c.mu.Lock()
		if len(c.ops) == 0 {
			c.lastSeen = int64(binary.BigEndian.Uint64(frame[8:]))
		} else {
			_, op = requestOf(frame[4:])
		}
		c.ops = append(c.ops, op)
		c.mu.Unlock()
		c.all.mu.Lock()
		write := c.all.write
		c.all.mu.Unlock()
		if write == nil {
			continue
		}
		if swallow, err := write(c, op, frame); err != nil {
			return 0, err
		} else if swallow {
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

func (c *sessTap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += n
	if err == nil {
		c.heard = time.Now()
	}
	return n, err
}

func (c *sessTap) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	if c.patience == 0 && !at.IsZero() {
		c.patience = time.Until(at)
	}
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(at)
}

func (c *sessTap) Close() error {
	c.mu.Lock()
	if c.closed.IsZero() {
		c.closed = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// sent returns the operations that were written, in order.
func (c *sessTap) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ops)
}

// sessNames returns n names of servers that only a Dialer of the test knows.
func sessNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("zk-%d.test:2181", i)
	}
	return names
}

// sessDial returns a Client whose connections all lead to target, and its
// session.
func sessDial(t testing.TB, target string, opts Options) (*Client, *session, *sessTaps) {
	t.Helper()
	taps := &sessTaps{target: target}
	opts.Dialer = taps.dial
	c := dialTo(t, sessNames(5), &opts)
	s, _ := c.session()
	return c, s, taps
}

// sessQueued returns how many requests wait in go-zookeeper's channel, which
// holds 16.
func sessQueued(conn *zk.Conn) int {
	return reflect.ValueOf(conn).Elem().FieldByName("sendChan").Len()
}

func sessAwaitUp(t testing.TB, s *session) {
	t.Helper()
	eventually(t, "the session is up", func() bool { up, _ := s.connected(); return up })
}

// sessConn returns the number of the newest connection. A connection can be lost
// and replaced so quickly that nobody sees the session down.
func sessConn(s *session) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number
}

// sessAwaitNext waits until the session is up on a connection after that one.
func sessAwaitNext(t testing.TB, s *session, conn uint64) {
	t.Helper()
	eventually(t, "the session is up again", func() bool {
		up, _ := s.connected()
		return up && sessConn(s) > conn
	})
}

// sessAwaitDown is for when no connection can be made.
func sessAwaitDown(t testing.TB, s *session) {
	t.Helper()
	eventually(t, "the session is down", func() bool { up, _ := s.connected(); return !up })
}

// sessEnd ends a session on the server, as its expiry would, while its client
// is away.
func sessEnd(t testing.TB, server string, id int64, password []byte) {
	t.Helper()
	nc, err := net.Dial("tcp", server)
	require.NoError(t, err)
	defer nc.Close()
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendBuffer(jute.AppendInt64(jute.AppendInt32(b, 10_000), id), password)
	for _, body := range [][]byte{b, jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpClose)} {
		_, err = nc.Write(jute.Frame(body))
		require.NoError(t, err)
		_, err = jute.ReadFrame(nc, 4096)
		require.NoError(t, err)
	}
}

// sessPassword returns the password of a session that came through the proxy.
func sessPassword(t testing.TB, p *proxy, id int64) []byte {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.mu.Lock()
		session, password := c.session, c.password
		c.mu.Unlock()
		if session == id {
			return password
		}
	}
	require.FailNow(t, "no such session")
	return nil
}

// sessGet is a read on the session that waits as long as it lives.
func sessGet(s *session, path string) error {
	_, _, err := call2(s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(path) })
	return err
}

// sessCallers starts n reads, each repeated until the session is over, and waits
// for them at the end of the test.
func sessCallers(t testing.TB, s *session, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				err := sessGet(s, "/")
				if err == errSessionOver {
					return
				}
				if err != nil && !unsettled(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(wg.Wait)
}

// sessWatches arms one watch.
func sessWatches(t testing.TB, s *session, path string) *watch {
	t.Helper()
	w, err := s.watch(within(t, 20*time.Second), path)
	require.NoError(t, err)
	return w
}

// sessLocks requires that the Client works.
func sessLocks(t testing.TB, c *Client) {
	t.Helper()
	l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

// sessClose returns how long Close took, and its error.
func sessClose(t testing.TB, c *Client) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	result := make(chan error, 1)
	go func() { result <- c.Close() }()
	select {
	case err := <-result:
		return time.Since(began), err
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Close hangs")
		return 0, nil
	}
}
