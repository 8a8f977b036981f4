package zkrecipes

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Helpers for tests that look into a session and its connections.

// serverNames returns the names of n servers. They resolve only in the test's own
// Dialer.
func serverNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("zk-%d.test:2181", i)
	}
	return names
}

// dialTapped returns a Client whose connections all lead to target through Taps, and
// its session.
func dialTapped(t testing.TB, target string, opts Options) (*Client, *line.Session, *harness.Taps) {
	t.Helper()
	taps := harness.NewTaps(target)
	opts.Dialer = taps.Dial
	c := dialTo(t, serverNames(5), &opts)
	s, _ := c.client.Session()
	return c, s, taps
}

// queuedRequests returns the number of requests in go-zookeeper's send channel, which
// holds 16.
func queuedRequests(conn *zk.Conn) int {
	return reflect.ValueOf(conn).Elem().FieldByName("sendChan").Len()
}

// awaitUp waits until the session is connected.
func awaitUp(t testing.TB, s *line.Session) {
	t.Helper()
	harness.Eventually(t, "the session is up", func() bool { up, _ := s.Connected(); return up })
}

// connectionNumber returns the number of the newest connection. A connection can be
// lost and replaced so quickly that a test never sees the session down.
func connectionNumber(s *line.Session) uint64 {
	conn, _ := s.Connection()
	return conn
}

// awaitReconnect waits until the session is connected by a later connection than
// conn.
func awaitReconnect(t testing.TB, s *line.Session, conn uint64) {
	t.Helper()
	harness.Eventually(t, "the session is up again", func() bool {
		up, _ := s.Connected()
		return up && connectionNumber(s) > conn
	})
}

// awaitDown waits until the session is disconnected. Use it while no connection can
// be made.
func awaitDown(t testing.TB, s *line.Session) {
	t.Helper()
	harness.Eventually(t, "the session is down", func() bool { up, _ := s.Connected(); return !up })
}

// readOnce reads a znode. It waits until the session is over, if need be.
func readOnce(s *line.Session, path string) error {
	return s.Call(func(conn *zk.Conn) error {
		_, _, err := conn.Get(path)
		return err
	})
}

// startReaders starts n goroutines that read until the session is over. The test
// waits for them at its end.
func startReaders(t testing.TB, s *line.Session, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				err := readOnce(s, "/")
				if err == zkconn.ErrSessionOver {
					return
				}
				if err != nil && !zkconn.Transient(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(wg.Wait)
}

// watchOn arms a watch on a znode.
func watchOn(t testing.TB, s *line.Session, path string) *zkconn.Watch {
	t.Helper()
	w, err := s.Watch(harness.Within(t, 20*time.Second), path)
	require.NoError(t, err)
	return w
}

// requireUsable requires that the Client can take and release a lock.
func requireUsable(t testing.TB, c *Client) {
	t.Helper()
	l, err := NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

// timedClose closes the Client and returns how long that took, and Close's error.
func timedClose(t testing.TB, c *Client) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	result := make(chan error, 1)
	go func() { result <- c.Close() }()
	select {
	case err := <-result:
		return time.Since(began), err
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Close hangs")
		return 0, nil
	}
}
