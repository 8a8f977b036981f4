package zkconn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults of go-zookeeper v1.0.4 on its own. They are the reasons for much of
// internal/zkconn and internal/wire. If a test fails here after an upgrade,
// go-zookeeper has been fixed, and the message names the workaround to remove.

// bareBetter returns the message of such a failure.
func bareBetter(workaround string) string {
	return "go-zookeeper has been fixed, so remove this workaround: " + workaround
}

// bareServers is a list of addresses that only a test's dialer connects. It is long
// because go-zookeeper sleeps for a second after each pass through its list, and then
// fails the requests in its queue; see TestBareConnFailsRequestsWhenItsListOfServersWraps.
var bareServers = slices.Repeat([]string{"127.0.0.1:1"}, 8)

// bare is a Conn as an ordinary program would create it, on a server in a bubble.
type bare struct {
	*recipetest.World
	conn   *zk.Conn
	events <-chan zk.Event
	taps   *harness.Taps
	look   *zk.Conn // of another session
}

const bareNode, bareTimeout = "/node", 9 * time.Second

// bareInBubble runs f with a Conn that has a session. bareNode exists.
func bareInBubble(t *testing.T, f func(t *testing.T, b *bare)) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := &bare{World: w, taps: harness.NewTapsVia(w.Srv.DialContext), look: w.Bare()}
		_, err := b.look.Create(bareNode, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		b.conn, b.events = bareConnect(t, bareServers, b.taps)
		synctest.Wait()
		f(t, b)
	})
}

// bareConnect returns a Conn that dials through taps.
func bareConnect(t *testing.T, servers []string, taps *harness.Taps) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect(servers, bareTimeout, zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, events
}

// bareOnServer returns a Conn to the shared server that has a session, for the processes of
// tests that a bubble would not let end.
func bareOnServer(t *testing.T) (*zk.Conn, *harness.Taps) {
	t.Helper()
	taps := harness.NewTaps(harness.Server())
	conn, _ := bareConnect(t, bareServers, taps)
	harness.Eventually(t, "a session", func() bool { return conn.State() == zk.StateHasSession })
	return conn, taps
}

// cut ends the Conn's connection, and makes it dial in vain until taps.Release.
func (b *bare) cut() {
	b.taps.Hold()
	b.reconnect()
}

// reconnect ends the Conn's connection.
func (b *bare) reconnect() {
	b.T.Helper()
	require.True(b.T, b.Srv.Disconnect(b.conn.SessionID()))
	synctest.Wait()
}

// onWrite calls f for each request of that operation. If it returns false, the request is
// not sent.
func (b *bare) onWrite(op string, f func(frame []byte) (bool, error)) {
	b.taps.OnWrite(func(_ *harness.Tap, got string, frame []byte) (bool, error) {
		if got != op {
			return false, nil
		}
		send, err := f(frame)
		return !send, err
	})
}

const bareChildEnv = "ZKRECIPES_TEST_CHILD"

// bareChild runs f in a process of its own, for what crashes its process or leaves
// goroutines that never end. It returns all that the process has printed.
func bareChild(t *testing.T, f func()) (output string) {
	t.Helper()
	if os.Getenv(bareChildEnv) == t.Name() {
		f()
		os.Exit(0)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(harness.Within(t, 2*time.Minute), self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), bareChildEnv+"="+t.Name(), "ZK_SERVERS="+strings.Join(harness.Servers(), ","))
	out, _ := cmd.CombinedOutput() // most fail
	return string(out)
}

// The session.

func TestBareConnGoesOnInTheNextSession(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		old := b.conn.SessionID()
		b.cut()
		made := harness.Go(t, func(context.Context) (string, error) {
			return b.conn.Create("/queued", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		})
		synctest.Wait()
		require.True(t, b.Srv.Expire(old))
		b.taps.Release()
		_, err := made.Wait()
		require.NoError(t, err, bareBetter("a Conn for each session, and the dialer that keeps it from reconnecting after the session's end"))
		require.NotEqual(t, old, b.conn.SessionID())
		require.Zero(t, b.taps.All()[1].Closed, bareBetter("wire.Conn closes itself once the session is over"))
	})
}

// A server that has lost its data, or lags behind what the client has seen, closes the
// connection after the ConnectRequest without an answer.
func TestBareConnIsRefusedForEverByServersThatAreBehind(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		id := b.conn.SessionID()
		b.onWrite("connect", func(frame []byte) (bool, error) {
			binary.BigEndian.PutUint64(frame[8:], math.MaxInt64) // last zxid seen
			return true, nil
		})
		b.reconnect()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Greater(t, len(b.taps.All()), 10)
		require.Equal(t, id, b.conn.SessionID(), bareBetter("wire.Session.Probe connects once more, with zxid 0"))
		b.taps.OnWrite(nil)
	})
}

func TestBareConnWaitsLongForASilentServer(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		tap := b.taps.Newest()
		require.Equal(t, 10*bareTimeout*2/3, tap.FirstDeadline, bareBetter("wire.Conn ignores go-zookeeper's deadlines"))
		b.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "ping"})
		time.Sleep(2 * bareTimeout)
		synctest.Wait()
		require.Equal(t, bareTimeout*2/3, tap.Closed.Sub(tap.LastRead), bareBetter("wire.Conn's watchdog, of half the timeout"))
	})
}

// Servers.

func TestBareConnResolvesNamesOnce(t *testing.T) {
	taps := harness.NewTaps(harness.Server())
	conn, events := bareConnect(t, []string{"localhost:2181"}, taps)
	harness.Eventually(t, "dialling", func() bool { return len(taps.Asked()) > 0 })
	conn.Close()
	for range events {
	}
	require.NotContains(t, taps.Asked()[0], "localhost", bareBetter("the HostProvider that passes names on"))

	// A label of 64 characters is invalid, so no name server is asked.
	_, _, err := zk.Connect([]string{strings.Repeat("x", 64) + ".test", "localhost"}, bareTimeout)
	require.Error(t, err, bareBetter("the HostProvider that passes names on: one that does not resolve is one server less"))
}

func TestBareConnFailsRequestsWhenItsListOfServersWraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := bareConnect(t, bareServers[:1], harness.NewTapsVia(refuses))
		_, _, err := conn.Get("/")
		require.Equal(t, zk.ErrNoServer, err, bareBetter("the HostProvider that says retryStart only at the end"))
	})
}

// bareHosts is a HostProvider that returns retryStart once the test sets it.
type bareHosts struct{ retryStart atomic.Bool }

func (h *bareHosts) Init([]string) error  { return nil }
func (h *bareHosts) Len() int             { return 1 }
func (h *bareHosts) Next() (string, bool) { return "127.0.0.1:1", h.retryStart.Load() }
func (h *bareHosts) Connected()           {}

func TestBareConnDialsInAHotLoopAndDoesNotLookWhetherItWasClosed(t *testing.T) {
	hosts := &bareHosts{}
	var dialled atomic.Int64
	conn, events, err := zk.Connect(bareServers, bareTimeout, zk.WithHostProvider(hosts),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			dialled.Add(1)
			return nil, errors.New("refused")
		}), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	harness.Eventually(t, bareBetter("zkconn.Session.pace"), func() bool { return dialled.Load() >= 10_000 })
	conn.Close() // gives up after a second
	after := dialled.Load()
	harness.Eventually(t, bareBetter("zkconn.Session.endLoop sends the loop round with retryStart"), func() bool { return dialled.Load() > after+10_000 })
	hosts.retryStart.Store(true)
	for range events {
	}
}

func TestBareConnCloseTakesASecondWhileDisconnected(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		b.cut()
		began := time.Now()
		b.conn.Close()
		require.Equal(t, time.Second, time.Since(began), bareBetter("the order of events in zkconn.Session.endLoop"))
		b.taps.Release()
	})
}

// Frames.

// The other reason is that the sending and the receiving side may wait for each other for ever, when
// a write fails during Close.
func TestBareConnHandsErrorsOfTheSocketToCallers(t *testing.T) {
	bareInBubble(t, func(t *testing.T, b *bare) {
		broken := errors.New("broken")
		b.onWrite("getData", func([]byte) (bool, error) { return false, broken })
		_, _, err := b.conn.Get("/")
		require.Equal(t, broken, err, bareBetter("wire.Conn.Write never fails"))
		b.taps.OnWrite(nil)
	})
}

// bareStuck reports whether a goroutine of go-zookeeper is stuck for ever: it sends to
// the channel of a request that nobody receives from any more, and holds the lock
// that every other request needs.
func bareStuck() bool {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "[chan send") && strings.Contains(g, "zk.(*Conn).flushRequests") {
			return true
		}
	}
	return false
}

func TestBareConnHangsOrPanics(t *testing.T) {
	for name, test := range map[string]struct {
		f          func(t *testing.T)
		says       string
		workaround string
	}{
		"when reauthentication is cut": {func(t *testing.T) {
			conn, taps := bareOnServer(t)
			require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
			taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
				if op == "auth" {
					return false, errors.New("connection reset")
				}
				return false, nil
			})
			taps.Newest().Close()
			harness.Eventually(t, "it hangs, or reconnects once more", func() bool { return bareStuck() || len(taps.All()) > 2 })
			fmt.Println("it hangs:", bareStuck())
		}, "it hangs: true", "wire.Conn presents the credentials itself"},
		"on a timeout of zero": {func(*testing.T) {
			client, server := net.Pipe()
			zk.Connect(bareServers, bareTimeout, zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return client, nil }))
			jute.ReadFrame(server, 1000)
			b := jute.AppendInt64(jute.AppendInt32(jute.AppendInt32(nil, 0), 0), 7)
			server.Write(jute.Frame(jute.AppendBuffer(b, make([]byte, 16))))
			if _, err := jute.ReadFrame(server, 1000); err != nil {
				select {} // the panic closes the connection before it ends the process
			}
		}, "non-positive interval for NewTicker", "wire.Conn refuses such a ConnectResponse"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, bareChild(t, func() { test.f(t) }), test.says, bareBetter(test.workaround))
		})
	}
}
