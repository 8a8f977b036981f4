package dbtest

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// Proxy passes TCP connections on, and fails as told.
type Proxy struct {
	target string
	ln     net.Listener

	mu    sync.Mutex
	links map[*link]struct{}
	still chan struct{} // not nil: nothing passes until it is closed
	next  *Commit
}

// link is a connection of a client, and that to the target.
type link struct {
	client, server net.Conn
	lost           *Commit // its reply is to be lost
}

// Commit is a COMMIT that a client is to send.
type Commit struct {
	// Sent is closed when the COMMIT has come, and Replied when the database has answered it.
	Sent, Replied chan struct{}

	hold      chan struct{} // not nil: the COMMIT passes when it is closed
	loseReply bool
	link      *link
}

// Release lets the COMMIT pass that HoldCommit holds.
func (c *Commit) Release() { close(c.hold) }

// Abandon closes the connection of the client that has sent the COMMIT, which may still pass.
func (c *Commit) Abandon() {
	<-c.Sent
	c.link.client.Close()
}

// NewProxy returns a proxy to that address, on a free port of the loopback.
func NewProxy(target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, ln: ln, links: map[*link]struct{}{}}
	go p.accept()
	return p, nil
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close closes the proxy and all connections.
func (p *Proxy) Close() {
	p.ln.Close()
	p.Drop()
	p.Resume()
}

// Drop closes all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Stall lets nothing pass until Resume.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still == nil {
		p.still = make(chan struct{})
	}
}

// Resume ends Stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still != nil {
		close(p.still)
		p.still = nil
	}
}

// HoldCommit holds the next COMMIT until it is released.
func (p *Proxy) HoldCommit() *Commit { return p.await(&Commit{hold: make(chan struct{})}) }

// LoseReply lets the next COMMIT pass, and closes the connection instead of passing on the reply.
func (p *Proxy) LoseReply() *Commit { return p.await(&Commit{loseReply: true}) }

func (p *Proxy) await(c *Commit) *Commit {
	c.Sent, c.Replied = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = c
	return c
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
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = struct{}{}
		p.mu.Unlock()
		go p.requests(l)
		go p.replies(l)
	}
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

func (p *Proxy) requests(l *link) {
	p.pass(l.server, l.client, func(chunk []byte) {
		if c := p.commitIn(l, chunk); c != nil {
			close(c.Sent)
			if c.hold != nil {
				<-c.hold
			}
		}
	})
	p.forget(l)
}

// commitIn returns what is to happen to the COMMIT in a chunk of a request, nil if nothing is.
func (p *Proxy) commitIn(l *link, chunk []byte) *Commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.next
	if c == nil || !bytes.Contains(bytes.ToUpper(chunk), []byte("COMMIT")) {
		return nil
	}
	p.next, c.link = nil, l
	if c.loseReply {
		l.lost = c
	}
	return c
}

func (p *Proxy) replies(l *link) {
	p.pass(l.client, l.server, func([]byte) {
		p.mu.Lock()
		lost := l.lost
		p.mu.Unlock()
		if lost != nil {
			l.close()
			close(lost.Replied)
		}
	})
	p.forget(l)
}

// pass passes on what it reads, after seen has seen it.
func (p *Proxy) pass(to io.Writer, from io.Reader, seen func([]byte)) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		p.mu.Lock()
		still := p.still
		p.mu.Unlock()
		if still != nil {
			<-still
		}
		seen(chunk[:n])
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) forget(l *link) {
	l.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
