package dbtest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Proxy passes connections to a database on. It can hold a COMMIT, or lose the reply to it.
type Proxy struct {
	*harness.Proxy
	t testing.TB

	mu   sync.Mutex
	next *Commit
	lost map[net.Conn]*Commit // whose replies are to be lost, by the client's connection
}

// Commit is a COMMIT that a client is to send.
type Commit struct {
	// Sent is closed when the COMMIT has come, and Replied when the database has answered it.
	Sent, Replied chan struct{}

	// Release lets the COMMIT pass that HoldCommit holds. The end of the test does, too.
	Release func()

	held      <-chan struct{} // not nil: the COMMIT passes when it is closed
	loseReply bool
	client    net.Conn
}

// Abandon closes the connection of the client that has sent the COMMIT, which may still pass.
func (c *Commit) Abandon() {
	<-c.Sent
	c.client.Close()
}

// NewProxy returns a proxy to that address, on a free port of the loopback, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	p := &Proxy{t: t, lost: map[net.Conn]*Commit{}}
	p.Proxy = harness.NewProxyWith(t, target, func(client net.Conn, fromServer bool, sent []byte) {
		if fromServer {
			p.replied(client)
		} else {
			p.requested(client, sent)
		}
	})
	return p
}

// HoldCommit holds the next COMMIT until it is released.
func (p *Proxy) HoldCommit() *Commit {
	held, release := context.WithCancel(p.t.Context())
	return p.await(&Commit{held: held.Done(), Release: release})
}

// LoseReply lets the next COMMIT pass, and closes the connection instead of passing on the reply.
func (p *Proxy) LoseReply() *Commit { return p.await(&Commit{loseReply: true}) }

func (p *Proxy) await(c *Commit) *Commit {
	c.Sent, c.Replied = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = c
	return c
}

// requested looks for the next COMMIT in what a client has sent, and waits while it is held.
func (p *Proxy) requested(client net.Conn, sent []byte) {
	p.mu.Lock()
	c := p.next
	if c == nil || !bytes.Contains(bytes.ToUpper(sent), []byte("COMMIT")) {
		p.mu.Unlock()
		return
	}
	p.next, c.client = nil, client
	if c.loseReply {
		p.lost[client] = c
	}
	p.mu.Unlock()
	close(c.Sent)
	if c.held != nil {
		<-c.held
	}
}

// replied closes the connection of a client whose reply is to be lost.
func (p *Proxy) replied(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.lost[client]; c != nil {
		client.Close()
		close(c.Replied)
		delete(p.lost, client)
	}
}
