package harness

import (
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Proxy passes frames between clients and a server. It counts requests by operation
// and breaks those that match a Rule.
// Operations have the names of jute.OpName. The name of a transaction lists its
// parts, as in "multi(create,setData)", and that of the handshake is "connect".
type Proxy struct {
	t      testing.TB
	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*proxied]struct{}
	counts map[string]int
	rules  []*Rule
	refuse bool          // connections are closed as soon as they are made
	thaw   chan struct{} // non-nil: nothing passes until it is closed
}

// Action is what a Rule does to the operation that it matches.
type Action int

const (
	DropBefore Action = iota // the request is lost and the connection ends
	Hold                     // the request waits until the rule is released
	HoldReply                // the reply, and all that follows it, waits until the rule is released
)

// Rule says what happens to an operation. See [Proxy.On].
type Rule struct {
	op     string // "": every operation except pings
	n      int    // fires at the nth match only; 0: at each
	action Action
	fired  chan struct{} // closed when the rule first fires
	free   chan struct{} // closed by Release
	hits   int

	fire, release sync.Once
}

// Release passes on what the rule holds.
func (r *Rule) Release() { r.release.Do(func() { close(r.free) }) }

// NewProxy starts a proxy to the server at target. It is closed at the end of the
// test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{t: t, target: target, ln: ln, conns: map[*proxied]struct{}{}, counts: map[string]int{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.Resume()
		p.Drop()
		p.mu.Lock()
		for _, r := range p.rules {
			r.Release()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// On adds a rule for the nth operation named op from now on. If n is 0, the rule
// applies to each. If op is empty, it matches every operation except pings.
func (p *Proxy) On(op string, n int, a Action) *Rule {
	r := &Rule{op: op, n: n, action: a, fired: make(chan struct{}), free: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Await waits until the rule has fired.
func (p *Proxy) Await(r *Rule) {
	p.t.Helper()
	select {
	case <-r.fired:
	case <-time.After(time.Minute):
		require.FailNow(p.t, "no request "+r.op, "%v", p.Count())
	}
}

// Drop ends all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// Stall passes on nothing, in either direction, until Resume. Connections stay open,
// and new ones are accepted.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		p.thaw = make(chan struct{})
	}
}

// Resume ends a Stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw != nil {
		close(p.thaw)
		p.thaw = nil
	}
}

// Refuse ends all connections, and ends new ones at once until it is called with
// false.
func (p *Proxy) Refuse(refuse bool) {
	p.Bar(refuse)
	if refuse {
		p.Drop()
	}
}

// Count returns how often each operation was sent, without pings and handshakes.
func (p *Proxy) Count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := maps.Clone(p.counts)
	for _, op := range []string{"ping", "connect", "auth"} {
		delete(m, op)
	}
	return m
}

// CountOf returns how often one operation was sent.
func (p *Proxy) CountOf(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[op]
}

// Reset sets all counts to zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = map[string]int{}
}

// Expire ends the session of one of the proxy's connections on the server, as its
// expiry would. Meanwhile no connection can be made. Otherwise a quick client could
// take its session back, and the server would close the connection of Expire
// (ZooKeeperServer.processConnectRequest).
func (p *Proxy) Expire() {
	p.t.Helper()
	p.Bar(true)
	defer p.Bar(false)
	p.mu.Lock()
	var id int64
	var password []byte
	for c := range p.conns {
		c.mu.Lock()
		if c.session != 0 {
			id, password = c.session, c.password
		}
		c.mu.Unlock()
	}
	p.mu.Unlock()
	require.NotZero(p.t, id, "no session")
	nc, err := net.Dial("tcp", p.target)
	require.NoError(p.t, err)
	defer nc.Close()
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendBuffer(jute.AppendInt64(jute.AppendInt32(b, 10_000), id), password)
	_, err = nc.Write(jute.Frame(b))
	require.NoError(p.t, err)
	_, err = jute.ReadFrame(nc, 4096)
	require.NoError(p.t, err)
	_, err = nc.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpClose)))
	require.NoError(p.t, err)
	_, err = jute.ReadFrame(nc, 4096)
	require.NoError(p.t, err)
}

// Bar ends new connections at once until it is called with false. It leaves existing
// connections alone.
func (p *Proxy) Bar(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Lead connects new clients to another server.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}
