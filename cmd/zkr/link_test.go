//go:build unix

package main

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// link passes bytes between clients and a server until it is cut.
type link struct {
	ln     net.Listener
	server string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

func newLink(t *testing.T, server string) *link {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &link{ln: ln, server: server, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { l.serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		l.cut()
		wg.Wait()
	})
	return l
}

func (l *link) addr() string { return l.ln.Addr().String() }

func (l *link) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.add(client, server) {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, client)
	delete(l.conns, server)
}

func (l *link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
	}
	return !l.isCut
}

// drop closes the connections. Clients can connect again.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// cut closes the connections, those to come included.
func (l *link) cut() {
	l.mu.Lock()
	l.isCut = true
	l.mu.Unlock()
	l.drop()
}

// dial connects the test itself.
func dial(t *testing.T, srv *zktest.Server) *zkrecipes.Client {
	t.Helper()
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// expireAll expires all sessions.
func expireAll(srv *zktest.Server) {
	for _, s := range srv.Sessions() {
		srv.Expire(s.ID)
	}
}

// evictAll deletes all places in the line.
func evictAll(t *testing.T, srv *zktest.Server, path string) {
	t.Helper()
	client := dial(t, srv)
	contenders, err := zkrecipes.NewMutex(client, path).Contenders(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, contenders)
	for _, c := range contenders {
		evicted, err := client.Evict(t.Context(), c, &zkrecipes.EvictOptions{Holder: true})
		require.NoError(t, err)
		require.True(t, evicted)
	}
}
