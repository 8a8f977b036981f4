package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// proxy passes connections on to a server, and counts their frames. It is for clients
// outside the process, which cannot be given a dialer.
type proxy struct {
	listener net.Listener
	server   string
	tally    *tally

	ctx  context.Context // ends with the proxy
	stop func()
	wg   sync.WaitGroup
}

func newProxy(server string, t *tally) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, server: server, tally: t}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.serve)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// close ends all connections.
func (p *proxy) close() {
	p.stop()
	p.listener.Close()
	p.wg.Wait()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.pass(client) })
	}
}

// pass passes on what the client and the server send, until one of them ends.
func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := p.tally.Dial("tcp", p.server, 10*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	end := func() {
		client.Close()
		server.Close()
	}
	defer context.AfterFunc(p.ctx, end)()
	p.wg.Go(func() {
		defer end()
		io.Copy(server, client)
	})
	io.Copy(client, server)
}
