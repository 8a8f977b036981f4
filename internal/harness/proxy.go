package harness

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy passes bytes between clients and a server, until it is told to lose or to hold them.
type Proxy struct {
	target string
	ln     net.Listener
	wg     sync.WaitGroup
	seen   func(client net.Conn, fromServer bool, sent []byte) // see NewProxyWith

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // both ends of each
	refuse bool                  // connections are closed as soon as they are made
	thaw   chan struct{}         // non-nil: nothing passes until it is closed
}

// NewProxy starts a proxy to the server at target. It is closed at the end of the
// test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyWith(t, target, nil)
}

// NewProxyWith is like NewProxy, and calls seen with what a client or the server has sent,
// before it passes. seen may wait, and may close the client's connection.
func NewProxyWith(t testing.TB, target string, seen func(client net.Conn, fromServer bool, sent []byte)) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return proxyOn(t, ln, target, seen)
}

func proxyOn(t testing.TB, ln net.Listener, target string, seen func(net.Conn, bool, []byte)) *Proxy {
	p := &Proxy{target: target, ln: ln, seen: seen, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.Resume()
		p.Refuse(true)
		p.wg.Wait()
	})
	return p
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Drop ends all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Refuse ends all connections, and ends new ones at once until it is called with
// false.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.Drop()
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

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.refuse {
			client.Close()
			server.Close()
		}
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(client, server, false) })
		p.wg.Go(func() { p.pass(client, server, true) })
	}
}

// pass passes on what one end sends, until either is closed.
func (p *Proxy) pass(client, server net.Conn, fromServer bool) {
	from, to := client, server
	if fromServer {
		from, to = server, client
	}
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		thaw := p.thaw
		p.mu.Unlock()
		if thaw != nil {
			<-thaw
		}
		if p.seen != nil && n > 0 {
			p.seen(client, fromServer, buf[:n])
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}
