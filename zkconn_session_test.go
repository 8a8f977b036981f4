package zkrecipes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// The session layer through faults of the network and of servers. What bare
// go-zookeeper does in the same places is in zkconn_bare_test.go.

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

func TestB05QueuedRequestDoesNotRunInTheNextSession(t *testing.T) {
	p := newProxy(t, harness.shared[0])
	c, s, taps := sessDial(t, p.addr(), Options{})
	old := s.wire.ID()
	password := sessPassword(t, p, old)
	taps.away(t, p)

	path := newPath(t)
	makeNode := func(conn *zk.Conn) (string, struct{}, error) {
		path, err := conn.Create(fmt.Sprintf("/%d", time.Now().UnixNano()), []byte(path), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return path, struct{}{}, err
	}
	const queued = 24 // more than go-zookeeper's channel holds
	errs := make(chan error, queued)
	for range queued {
		go func() {
			_, _, err := call2(s, makeNode)
			errs <- err
		}()
	}
	eventually(t, "they are queued", func() bool { return sessQueued(s.conn) == 16 })
	sessEnd(t, harness.shared[0], old, password)
	p.reset()
	taps.release()
	for range queued {
		require.ErrorIs(t, <-errs, errSessionOver)
	}

	sessLocks(t, c)
	next, _ := c.session()
	require.NotEqual(t, old, next.wire.ID())
	require.Zero(t, p.countOf("create"), "none has reached a server")
	require.NotZero(t, p.countOf(opRelease))
}

func TestB17SilentServerIsLeftForAnother(t *testing.T) {
	t.Run("before it has answered at all", func(t *testing.T) {
		hole, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer hole.Close()
		var mu sync.Mutex
		var asked []string
		c := dialTo(t, sessNames(2), &Options{
			SessionTimeout: 4 * time.Second,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, addr)
				target := harness.shared[0]
				if addr == asked[0] {
					target = hole.Addr().String()
				}
				return new(net.Dialer).DialContext(ctx, network, target)
			},
		})
		sessLocks(t, c)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, asked, 2)
		require.NotEqual(t, asked[0], asked[1])
	})

	t.Run("in the middle of a session", func(t *testing.T) {
		const timeout = 4 * time.Second
		p := newProxy(t, harness.shared[0])
		var mu sync.Mutex
		var asked []string
		var left time.Time
		c := dialTo(t, sessNames(2), &Options{
			SessionTimeout: timeout,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, addr)
				target := p.addr()
				if addr != asked[0] {
					target, left = harness.shared[0], time.Now()
				}
				return new(net.Dialer).DialContext(ctx, network, target)
			},
		})
		s, _ := c.session()
		l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
		require.NoError(t, err)
		lost := sessConn(s)
		began := time.Now()
		p.stall()
		sessAwaitNext(t, s, lost)
		require.NoError(t, l.Err(), "the session has lived on")
		require.NoError(t, l.Release())
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, asked, 2)
		require.NotEqual(t, asked[0], asked[1])
		// Half the timeout after the last answer. go-zookeeper waits two thirds.
		require.Less(t, left.Sub(began), timeout*9/10)
	})
}

func TestB38NegotiatedTimeoutCounts(t *testing.T) {
	for asked, negotiated := range map[time.Duration]time.Duration{ // with ticks of 500 ms
		time.Minute:      10 * time.Second,
		time.Millisecond: time.Second,
		3 * time.Second:  3 * time.Second,
	} {
		t.Run(asked.String(), func(t *testing.T) {
			needsOwn(t) // its ticks
			c := dial(t, &Options{SessionTimeout: asked})
			s, _ := c.session()
			require.Equal(t, negotiated, s.wire.Timeout())
			before := time.Now()
			l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
			require.NoError(t, err)
			require.False(t, l.ValidUntil().After(time.Now().Add(negotiated-negotiated/100)))
			require.True(t, l.ValidUntil().After(before))
			require.NoError(t, l.Release())
		})
	}
}

func TestB50NamesAreResolvedAtEveryAttempt(t *testing.T) {
	t.Run("a name that does not resolve", func(t *testing.T) {
		names := sessNames(2)
		var mu sync.Mutex
		var asked []string
		c := dialTo(t, names, &Options{
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, addr)
				if addr == asked[0] {
					return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
				}
				return new(net.Dialer).DialContext(ctx, network, harness.shared[0])
			},
		})
		sessLocks(t, c)
		mu.Lock()
		defer mu.Unlock()
		require.ElementsMatch(t, names, asked, "each as it was given")
	})

	t.Run("no name resolves", func(t *testing.T) {
		lookup := &net.DNSError{Err: "no such host", Name: "zk-0.test", IsNotFound: true}
		_, err := Dial(within(t, 100*time.Millisecond), sessNames(1), &Options{
			Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, lookup },
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lookup)
		require.ErrorContains(t, err, "zk-0.test:2181")
	})

	t.Run("a server that has moved", func(t *testing.T) {
		here, there := newProxy(t, harness.shared[0]), newProxy(t, harness.shared[0])
		var at atomic.Pointer[proxy]
		at.Store(here)
		var names sync.Map
		c := dialTo(t, []string{"zk.test"}, &Options{
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				names.Store(addr, true)
				return new(net.Dialer).DialContext(ctx, network, at.Load().addr())
			},
		})
		s, _ := c.session()
		l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
		require.NoError(t, err)
		lost := sessConn(s)
		at.Store(there)
		here.refusing(true)
		sessAwaitNext(t, s, lost)
		require.NoError(t, l.Release(), "the same session")
		require.Equal(t, 1, there.countOf(opRelease))
		names.Range(func(name, _ any) bool {
			require.Equal(t, "zk.test:2181", name)
			return true
		})
	})

	t.Run("the default dialer resolves", func(t *testing.T) {
		p := newProxy(t, harness.shared[0])
		_, port, err := net.SplitHostPort(p.addr())
		require.NoError(t, err)
		c := dialTo(t, []string{"localhost:" + port}, nil)
		s, _ := c.session()
		lost := sessConn(s)
		p.drop()
		sessAwaitNext(t, s, lost)
	})
}

// sessCA is a certificate authority of the test.
type sessCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSessCA(t testing.TB) *sessCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &sessCA{cert, key}
}

func (ca *sessCA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// terminator accepts TLS connections for name and passes what is in them on to
// target. It returns its address.
func (ca *sessCA) terminator(t testing.TB, name, target string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, ca.cert, &key.PublicKey, ca.key)
	require.NoError(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	pass := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		io.Copy(to, from)
	}
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { pass(server, client) })
			wg.Go(func() { pass(client, server) })
		}
	})
	return ln.Addr().String()
}

func TestB51TLS(t *testing.T) {
	ca := newSessCA(t)
	p := newProxy(t, harness.shared[0])
	secure := ca.terminator(t, "zk.test", p.addr())
	to := func(target string) func(context.Context, string, string) (net.Conn, error) {
		return (&sessTaps{target: target}).dial
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()

	t.Run("works, and does so again after a drop", func(t *testing.T) {
		c := dialTo(t, []string{"zk.test"}, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(secure)})
		s, _ := c.session()
		l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
		require.NoError(t, err)
		for range 3 {
			lost := sessConn(s)
			p.drop()
			sessAwaitNext(t, s, lost)
		}
		require.NoError(t, l.Release(), "the same session")
		require.NoError(t, c.Close())
	})

	t.Run("ServerName wins over the name that was dialled", func(t *testing.T) {
		c := dialTo(t, []string{"other.test"}, &Options{
			TLS: &tls.Config{RootCAs: ca.pool(), ServerName: "zk.test"}, Dialer: to(secure),
		})
		sessLocks(t, c)
	})

	refused := func(t *testing.T, server string, patience time.Duration, opts *Options) error {
		t.Helper()
		began := time.Now()
		c, err := Dial(within(t, patience), []string{server}, opts)
		if c != nil {
			c.Close()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), patience+5*time.Second)
		require.ErrorContains(t, err, "zkrecipes: dial "+server)
		return err
	}
	const short = 300 * time.Millisecond

	t.Run("wrong name", func(t *testing.T) {
		err := refused(t, "other.test:2181", short, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(secure)})
		var wrong x509.HostnameError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "other.test", wrong.Host)
	})

	t.Run("unknown CA", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{TLS: &tls.Config{RootCAs: newSessCA(t).pool()}, Dialer: to(secure)})
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})

	t.Run("plain server", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(harness.shared[0])})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("server that says nothing", func(t *testing.T) {
		err := refused(t, "zk.test:2181", 1500*time.Millisecond, &Options{
			SessionTimeout: 2 * time.Second, // half a second for each attempt
			TLS:            &tls.Config{RootCAs: ca.pool()}, Dialer: to(mute.Addr().String()),
		})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("plain client", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{Dialer: to(secure)})
		require.ErrorContains(t, err, "handshake")
	})
}

func TestB54DropsAmidReauthentication(t *testing.T) {
	const cuts = 102
	p := newProxy(t, harness.shared[0])
	taps := &sessTaps{target: p.addr()}
	// With so many names no attempt has to wait for its turn.
	c := dialTo(t, sessNames(2*cuts), &Options{
		Dialer: taps.dial,
		Auth:   []Auth{{Scheme: "digest", Data: []byte("user:password")}},
	})
	s, _ := c.session()
	// A lease of each kind, and behind each somebody who waits for it.
	path := newPath(t)
	var leases []*Lease
	var waiting []*attempt
	for i, side := range sides {
		path := fmt.Sprint(path, "-", i)
		leases = append(leases, held(t, side.theirs(c, path).Lock))
		waiting = append(waiting, later(t, side.ours(c, path).Lock))
		eventually(t, "asleep", func() bool { return len(watched(c)) >= 2*(i+1) && c.idle() })
	}
	for cut, rule := range map[string]func() *rule{
		"before the first credential": func() *rule { return p.on("auth", 0, dropBefore) },
		"before the answer":           func() *rule { return p.on("auth", 0, dropAfter) },
		"after the handshake's first": func() *rule { return p.on("connect", 0, dropAfter) },
	} {
		r := rule()
		p.drop()
		eventually(t, "cut "+cut, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return r.hits >= cuts/3
		})
		p.off(r)
		sessAwaitUp(t, s)
	}
	for i, l := range leases {
		require.NoError(t, l.Err())
		require.True(t, waiting[i].waiting())
		require.NoError(t, l.Release(), "the session has lived on, credentials and all")
		require.NoError(t, waiting[i].granted().Release())
	}
	sessLocks(t, c)
	now, _ := c.session()
	require.Same(t, s, now)
	require.NoError(t, c.Close())
}

func TestB60WritesThatFailUnderLoadLeaveNoGoroutine(t *testing.T) {
	p := newProxy(t, harness.shared[0]) // its goroutines end with the connections
	before := goleak.IgnoreCurrent()
	path := newPath(t)
	broken := errors.New("broken")
	for range 10 {
		c, s, taps := sessDial(t, p.addr(), Options{})
		var failures atomic.Int32
		taps.onWrite(func(tap *sessTap, op string, _ []byte) (bool, error) {
			if op != "connect" && op != "auth" && len(tap.sent()) > 20 {
				failures.Add(1)
				return false, broken
			}
			return false, nil
		})
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for {
					if err := sessGet(s, "/"); err == errSessionOver {
						return
					} else if errors.Is(err, broken) {
						t.Error("a raw error of the socket:", err)
					}
				}
			})
		}
		for i, side := range sides {
			m := side.ours(c, fmt.Sprint(path, "-", i))
			wg.Go(func() {
				for {
					if err := m.Do(context.Background(), nothing); errors.Is(err, ErrClosed) {
						return
					}
				}
			})
		}
		eventually(t, "writes fail", func() bool { return failures.Load() >= 3 })
		took, _ := sessClose(t, c)
		require.Less(t, took, 10*time.Second)
		wg.Wait()
	}
	p.drop()
	require.NoError(t, goleak.Find(before))
}

// Close.

// sessSoon is what Close may take while there is nobody to talk to. Done the
// obvious way it takes one to three seconds.
const sessSoon = 900 * time.Millisecond

func TestCloseTakesNoTimeWhateverTheStateOfTheConnection(t *testing.T) {
	auth := Options{SessionTimeout: 6 * time.Second, Auth: []Auth{{Scheme: "digest", Data: []byte("user:password")}}}
	for name, lose := range map[string]func(t *testing.T, p *proxy, s *session, taps *sessTaps){
		"disconnected": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			p.refusing(true)
			sessAwaitDown(t, s)
		},
		"dialling a black hole": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			taps.away(t, p)
		},
		"handshake unanswered": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			r := p.on("connect", 0, withhold)
			p.drop()
			p.await(r)
		},
		"credentials unanswered": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			r := p.on("auth", 0, withhold)
			p.drop()
			p.await(r)
		},
		"re-arming watches": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			r := p.on("setWatches", 0, withhold)
			p.drop()
			p.await(r)
		},
		"requests queued": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			taps.away(t, p)
			sessCallers(t, s, 40)
			eventually(t, "queued", func() bool { return sessQueued(s.conn) == 16 })
		},
		"requests held back while re-arming": func(t *testing.T, p *proxy, s *session, taps *sessTaps) {
			r := p.on("setWatches", 0, withhold)
			p.drop()
			p.await(r)
			sessCallers(t, s, 40)
			eventually(t, "written", func() bool {
				s.calling.mu.Lock()
				defer s.calling.mu.Unlock()
				return s.calling.n == 40 && sessQueued(s.conn) == 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, harness.shared[0])
			c, s, taps := sessDial(t, p.addr(), auth)
			sessWatches(t, s, "/zookeeper")
			lose(t, p, s, taps)
			took, err := sessClose(t, c)
			require.Less(t, took, sessSoon)
			require.ErrorContains(t, err, "left to time out")
			require.Equal(t, err, c.Close(), "a second Close does nothing")
		})
	}
}

// Where the client has not heard of the loss yet, go-zookeeper may take the
// request to close and leave it unanswered, which costs the second that it waits.
func TestCloseAMomentAfterTheConnectionWasLost(t *testing.T) {
	p := newProxy(t, harness.shared[0])
	c, _, _ := sessDial(t, p.addr(), Options{})
	p.refusing(true)
	took, err := sessClose(t, c)
	require.Less(t, took, 3*time.Second)
	require.ErrorContains(t, err, "left to time out")
}

func TestCloseEndsTheSessionWhileConnected(t *testing.T) {
	c := dial(t, nil)
	m := NewMutex(c, newPath(t))
	l, err := m.Lock(within(t, 20*time.Second))
	require.NoError(t, err)
	s, _ := c.session()
	node := "/" + newPath(t)[6:25] // ephemeral, gone with the session only
	_, _, err = call2(s, func(conn *zk.Conn) (string, struct{}, error) {
		made, err := conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return made, struct{}{}, err
	})
	require.NoError(t, err)
	took, err := sessClose(t, c)
	require.NoError(t, err)
	require.Less(t, took, sessSoon)
	require.ErrorIs(t, l.Err(), ErrClosed)
	there, _, err := raw(t).Exists(node)
	require.NoError(t, err)
	require.False(t, there)
}

func TestCloseWhereTheServerIsSilentTakesHalfTheTimeoutAndThreeSecondsAtMost(t *testing.T) {
	const timeout = 2 * time.Second
	p := newProxy(t, harness.shared[0])
	c, s, _ := sessDial(t, p.addr(), Options{SessionTimeout: timeout})
	l, err := NewMutex(c, newPath(t)).Lock(within(t, 20*time.Second))
	require.NoError(t, err)
	p.stall()
	for range 5 {
		c.tasks.start(func() { sessGet(s, "/") })
	}
	took, err := sessClose(t, c)
	require.Error(t, err)
	require.Less(t, took, timeout/2+3*time.Second)
	require.ErrorIs(t, l.Err(), ErrClosed)
}

func TestCloseTwiceAndAtTheSameTime(t *testing.T) {
	c := dial(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took, err := sessClose(t, c)
	require.NoError(t, err)
	require.Less(t, took, sessSoon)
	_, err = NewMutex(c, "/a").Lock(within(t, time.Second))
	require.ErrorIs(t, err, ErrClosed)
}

func TestDialGivesUpWithItsContextWhateverTheServerDoes(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()
	withheld := newProxy(t, harness.shared[0])
	withheld.on("auth", 0, withhold)
	cut := newProxy(t, harness.shared[0])
	cut.on("connect", 0, dropAfter)
	for name, dialer := range map[string]func(context.Context, string, string) (net.Conn, error){
		"black hole": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"nobody listens":         (&sessTaps{target: closed.Addr().String()}).dial,
		"never answers":          (&sessTaps{target: mute.Addr().String()}).dial,
		"answers no credentials": (&sessTaps{target: withheld.addr()}).dial,
		"closes at once":         (&sessTaps{target: cut.addr()}).dial,
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			ctx := within(t, 100*time.Millisecond)
			c, err := Dial(ctx, []string{"zk.test"}, &Options{Dialer: dialer})
			deadline, _ := ctx.Deadline()
			took := time.Since(deadline)
			require.Nil(t, c)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, took, sessSoon)
			if name != "answers no credentials" && name != "closes at once" { // the proxy's own goroutines
				require.NoError(t, goleak.Find(before))
			}
		})
	}
}
