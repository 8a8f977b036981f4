package zkrecipes

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// proxy stands between a client and a server and understands the frames that
// pass: it counts requests by operation and breaks what a rule names.
// Operations have the names of jute.OpName; transactions name their parts, as
// in "multi(create,setData)", and the handshake is "connect".
type proxy struct {
	t      testing.TB
	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*proxied]struct{}
	counts map[string]int
	bytes  int // that servers sent
	rules  []*rule
	refuse bool          // connections are closed as soon as they are made
	thaw   chan struct{} // non-nil: nothing passes until it is closed
}

// What a rule does to the operation that it matches.
type action int

const (
	dropBefore action = iota // the server never sees it, the connection ends
	dropAfter                // the server answers, the client does not hear it, the connection ends
	withhold                 // the same, and the connection stays
	hold                     // the request waits until the rule is released
	holdReply                // the reply waits until the rule is released, and what follows it too
)

type rule struct {
	op     string // "" any but pings
	n      int    // fires at the nth match; 0: at every one
	action action
	fired  chan struct{} // closed at the first time
	free   chan struct{} // see release
	before func()        // called before a request is passed on, if not nil
	hits   int
}

func (r *rule) release() { close(r.free) }

// proxied is one connection through the proxy.
type proxied struct {
	p              *proxy
	client, server net.Conn
	mu             sync.Mutex
	answers        map[int32]*rule
	session        int64
	password       []byte
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, target: target, ln: ln, conns: map[*proxied]struct{}{}, counts: map[string]int{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.resume()
		p.drop()
		p.mu.Lock()
		for _, r := range p.rules {
			select {
			case <-r.free:
			default:
				close(r.free)
			}
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

// on adds a rule for the nth operation from now on.
func (p *proxy) on(op string, n int, a action) *rule {
	r := &rule{op: op, n: n, action: a, fired: make(chan struct{}), free: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// off takes a rule away.
func (p *proxy) off(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.DeleteFunc(p.rules, func(x *rule) bool { return x == r })
}

// await fails the test if the rule does not fire.
func (p *proxy) await(r *rule) {
	p.t.Helper()
	select {
	case <-r.fired:
	case <-time.After(20 * time.Second):
		require.FailNow(p.t, "no "+r.op+" came", "%v", p.count())
	}
}

// drop ends all connections.
func (p *proxy) drop() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// stall lets nothing pass, in either direction, until resume: connections stay
// open and new ones are accepted.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		p.thaw = make(chan struct{})
	}
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw != nil {
		close(p.thaw)
		p.thaw = nil
	}
}

// refusing makes the proxy end all connections, and new ones at once.
func (p *proxy) refusing(refuse bool) {
	p.barred(refuse)
	if refuse {
		p.drop()
	}
}

// count returns how often each operation was sent, pings and handshakes aside.
func (p *proxy) count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := maps.Clone(p.counts)
	for _, op := range []string{"ping", "connect", "auth"} {
		delete(m, op)
	}
	return m
}

func (p *proxy) countOf(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[op]
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.bytes = map[string]int{}, 0
}

// expire ends the newest session that came through here, on the server, as its
// expiry would.
func (p *proxy) expire() {
	p.t.Helper()
	p.barred(true) // else the client comes back in between, and takes it over again
	defer p.barred(false)
	p.takeOver()()
}

// barred makes the proxy end new connections at once.
func (p *proxy) barred(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// takeOver does what expire needs first, and returns what ends the session.
func (p *proxy) takeOver() (end func()) {
	p.t.Helper()
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
	p.t.Cleanup(func() { nc.Close() })
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendBuffer(jute.AppendInt64(jute.AppendInt32(b, 10_000), id), password)
	_, err = nc.Write(jute.Frame(b))
	require.NoError(p.t, err)
	_, err = jute.ReadFrame(nc, 4096)
	require.NoError(p.t, err)
	return func() {
		p.t.Helper()
		_, err = nc.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpClose)))
		require.NoError(p.t, err)
		_, err = jute.ReadFrame(nc, 4096)
		require.NoError(p.t, err)
		nc.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, target := p.refuse, p.target
		p.mu.Unlock()
		if refuse {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		c := &proxied{p: p, client: client, server: server, answers: map[int32]*rule{}}
		p.mu.Lock()
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(c.requests)
		p.wg.Go(c.replies)
	}
}

func (c *proxied) close() {
	c.client.Close()
	c.server.Close()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	delete(c.p.conns, c)
}

// frozen waits while the proxy is stalled.
func (c *proxied) frozen() {
	c.p.mu.Lock()
	thaw := c.p.thaw
	c.p.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

func (c *proxied) requests() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.client, 1<<30)
		if err != nil {
			return
		}
		c.frozen()
		xid, op := int32(0), "connect"
		if !first {
			xid, op = requestOf(frame[4:])
		}
		if r := c.p.match(op); r != nil {
			switch r.action {
			case dropBefore:
				return
			case hold:
				<-r.free
				if r.before != nil {
					r.before()
				}
			default:
				c.mu.Lock()
				c.answers[xid] = r
				c.mu.Unlock()
			}
		}
		if _, err := c.server.Write(frame); err != nil {
			return
		}
	}
}

func (c *proxied) replies() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.server, 1<<30)
		if err != nil {
			return
		}
		c.frozen()
		c.p.mu.Lock()
		c.p.bytes += len(frame)
		c.p.mu.Unlock()
		d := jute.NewDecoder(frame[4:])
		xid := d.Int32()
		c.mu.Lock()
		if first {
			xid = 0
			d.Int32() // timeout
			c.session, c.password = d.Int64(), slices.Clone(d.Buffer())
		}
		r := c.answers[xid]
		delete(c.answers, xid)
		c.mu.Unlock()
		if r != nil {
			switch r.action {
			case dropAfter:
				return
			case withhold:
				continue
			case holdReply:
				<-r.free
			}
		}
		if _, err := c.client.Write(frame); err != nil {
			return
		}
	}
}

// match counts the operation and returns the rule that it fires.
func (p *proxy) match(op string) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[op]++
	for _, r := range p.rules {
		if r.op != op && (r.op != "" || op == "ping") {
			continue
		}
		if r.hits++; r.n != 0 && r.hits != r.n {
			continue
		}
		select {
		case <-r.fired:
		default:
			close(r.fired)
		}
		return r
	}
	return nil
}

// requestOf names the operation in a frame's body.
func requestOf(body []byte) (xid int32, op string) {
	d := jute.NewDecoder(body)
	xid = d.Int32()
	code := d.Int32()
	op = jute.OpName(code)
	if code != jute.OpMulti {
		return xid, op
	}
	var parts []string
	for {
		code, done := d.Int32(), d.Bool()
		d.Int32()
		if done || d.Err != nil {
			return xid, op + "(" + strings.Join(parts, ",") + ")"
		}
		parts = append(parts, jute.OpName(code))
		_ = d.String() // path
		switch code {
		case jute.OpCreate:
			d.Buffer()
			for range d.Int32() {
				d.Int32()
				_ = d.String()
				_ = d.String()
			}
		case jute.OpSetData:
			d.Buffer()
		}
		d.Int32() // flags or version
	}
}
