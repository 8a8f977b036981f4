package zktest

import (
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raceEnabled reports whether the race detector runs.
var raceEnabled = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// inMemory runs f in a bubble with a server in memory.
func inMemory(t *testing.T, f func(t *testing.T, srv *Server), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, NewServer(t, append([]Option{InMemory()}, opts...)...)) })
}

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
	case <-time.After(time.Minute):
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
