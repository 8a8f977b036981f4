package harness

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Quiet is a logger for go-zookeeper that discards everything.
type Quiet struct{}

func (Quiet) Printf(string, ...any) {}

// Raw returns a go-zookeeper Conn to the shared server, without the library.
func Raw(t testing.TB) *zk.Conn {
	t.Helper()
	return RawTo(t, Servers())
}

// RawTo is like Raw for the given servers.
func RawTo(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	return RawVia(t, nil, servers...)
}

// RawVia is like RawTo and dials with the given dialer, unless that is nil. The Conn
// has a session, and is closed at the end of the test.
func RawVia(t testing.TB, dial zk.Dialer, servers ...string) *zk.Conn {
	t.Helper()
	if dial == nil {
		dial = net.DialTimeout
	}
	conn, events, err := zk.Connect(servers, 10*time.Second,
		zk.WithDialer(dial), zk.WithLogger(Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	up, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		connected := sync.OnceFunc(func() { close(up) })
		for e := range events {
			if e.State == zk.StateHasSession {
				connected()
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-drained
	})
	<-up
	return conn
}
