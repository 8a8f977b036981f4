package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// connect returns a client with a session. It is closed when the test ends,
// before the server if the server was started first.
func connect(t testing.TB, srv *Server, timeout time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{srv.Addr()}, timeout,
		zk.WithDialer(srv.Dial), zk.WithLogger(discardLogger{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	drained := make(chan struct{})
	up := make(chan struct{})
	go func() {
		defer close(drained)
		connected := false
		for e := range events {
			if e.State == zk.StateHasSession && !connected {
				connected = true
				close(up)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-drained
	})
	select {
	case <-up:
	case <-time.After(20 * time.Second):
		t.Fatal("no session")
	}
	return conn
}

var worldACL = zk.WorldACL(zk.PermAll)

func create(t testing.TB, conn *zk.Conn, path string, flags int32) string {
	t.Helper()
	got, err := conn.Create(path, nil, flags, worldACL)
	require.NoError(t, err)
	return got
}
