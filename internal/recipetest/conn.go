package recipetest

import (
	"context"
	"encoding/binary"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

func HasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Lingering is a connection whose Close returns only once free is closed.
type Lingering struct {
	net.Conn
	Closing chan struct{} // closed when Close is first called
	Free    chan struct{}
	Once    *sync.Once
}

func (c *Lingering) Close() error {
	err := c.Conn.Close()
	c.Once.Do(func() { close(c.Closing) })
	<-c.Free
	return err
}

// RequireGivenUp requires that a lease whose session is not served any more, from now
// on, ends after the session timeout, and that its place goes after
// twice the timeout, once the attempt under way has failed. log has what the client warns of.
func (w *World) RequireGivenUp(l *zkrecipes.Lease, log *Warnings) {
	w.T.Helper()
	place := l.Check().Path
	time.Sleep(DefaultSessionTimeout)
	require.ErrorIs(w.T, l.Err(), zkrecipes.ErrLost, "nobody could have used or released it for as long as the timeout")
	require.True(w.T, w.Has(place), "the session lives on as yet")
	require.ErrorIs(w.T, l.Release(), zkrecipes.ErrLost)
	time.Sleep(2 * DefaultSessionTimeout) // one more for what is under way
	over := log.With("session over")
	require.NotEmpty(w.T, over)
	require.Contains(w.T, over[0], zk.ErrSessionExpired.Error())
	require.Contains(w.T, over[0], "given up")
	require.False(w.T, w.Has(place))
}

// Flap drops the client's connection whenever it has been up for that long, for a
// minute.
func (w *World) Flap(c *zkrecipes.Client, lasts time.Duration) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		if c.Status().Connected {
			time.Sleep(lasts)
			w.Srv.Disconnect(SessionID(c))
			synctest.Wait()
		}
	}
}

// WaitsInLine returns a call of Lock that has waited for a while, and its client.
func (w *World) WaitsInLine() (*harness.Call[*zkrecipes.Lease], *zkrecipes.Client) {
	w.T.Helper()
	Held(w.T, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Lock)
	c := w.Stranger(nil)
	waiting := w.LockLater(c)
	time.Sleep(3 * time.Second)
	return waiting, c
}

// Shorten makes connections whose handshakes ask for another session timeout.
func (w *World) Shorten(timeout *atomic.Int64) dialFunc {
	taps := harness.NewTapsVia(w.Srv.DialContext)
	taps.OnWrite(func(_ *harness.Tap, op string, frame []byte) (bool, error) {
		if ms := timeout.Load(); op == "connect" && ms != 0 {
			binary.BigEndian.PutUint32(frame[16:], uint32(ms)) // behind length, version and zxid
		}
		return false, nil
	})
	return taps.Dial
}

// Ahead makes connections to the world's server on which, while on is set, all replies seem to come from
// many epochs later. To a client that has seen these, the server has lost transactions once on is not set.
func (w *World) Ahead(on *atomic.Bool) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := w.Srv.DialContext(ctx, network, addr)
		if err == nil && on.Load() {
			nc = &ahead{Conn: nc}
		}
		return nc, err
	}
}

type ahead struct {
	net.Conn
	connected bool
	rest      []byte // of the frame that is being read
}

func (c *ahead) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		frame, err := jute.ReadFrame(c.Conn, 1<<30)
		if err != nil {
			return 0, err
		}
		if zxid := binary.BigEndian.Uint64(frame[8:]); c.connected { // behind length and xid
			binary.BigEndian.PutUint64(frame[8:], zxid+1<<40)
		}
		c.connected, c.rest = true, frame
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// PromptClose is how long Close may take while disconnected. With go-zookeeper's Close
// alone it would take one to three seconds.
const PromptClose = 900 * time.Millisecond

// dialFunc is the type of Options.Dialer.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// OneAttempt returns a dialer, and a context that ends when it is used a second time: by
// then the first attempt to connect has failed.
func OneAttempt(ctx context.Context, dial dialFunc) (context.Context, dialFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var attempts atomic.Int32
	return ctx, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if attempts.Add(1) == 2 {
			cancel()
		}
		return dial(ctx, network, addr)
	}
}

// InChunks sends the operations for all znodes in transactions of 200.
func InChunks(t testing.TB, conn *zk.Conn, nodes []string, op func(node string) any) {
	t.Helper()
	for nodes := range slices.Chunk(nodes, 200) {
		var ops []any
		for _, node := range nodes {
			ops = append(ops, op(node))
		}
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
	}
}

// WatchNodes arms a watch on each znode.
func WatchNodes(t testing.TB, s *session.Session, nodes []string) []*zkconn.Watch {
	t.Helper()
	watches := make([]*zkconn.Watch, len(nodes))
	ctx := harness.Within(t, 2*time.Minute)
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < len(nodes); i += 8 {
				var err error
				if watches[i], err = s.Watch(ctx, nodes[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	return watches
}

// RequireFired requires that each watch fires with the given event.
func RequireFired(t testing.TB, watches []*zkconn.Watch, event int32) {
	t.Helper()
	timeout := time.After(time.Minute)
	for i, w := range watches {
		select {
		case <-w.Fired():
			require.Equal(t, event == jute.EventDeleted, w.Deleted())
		case <-timeout:
			fired := 0
			for _, w := range watches {
				if w.HasFired() {
					fired++
				}
			}
			require.FailNow(t, "a watch was lost", "number %d; of %d watches %d have fired", i, len(watches), fired)
		}
	}
}
