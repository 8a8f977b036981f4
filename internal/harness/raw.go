package harness

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Quiet is a logger for go-zookeeper that says nothing.
type Quiet struct{}

func (Quiet) Printf(string, ...any) {}

// Raw returns a bare go-zookeeper Conn to the shared server.
func Raw(t testing.TB) *zk.Conn {
	t.Helper()
	return RawTo(t, Servers())
}

// RawTo returns a bare go-zookeeper Conn to these servers.
func RawTo(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	return RawVia(t, nil, servers...)
}

// RawVia returns a bare go-zookeeper Conn that has a session. It dials
// with the dialer, if that is not nil, and is closed at the end of the test.
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
