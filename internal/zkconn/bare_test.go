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
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Faults of go-zookeeper v1.0.4 on its own. They are the reasons for much of
// internal/zkconn and internal/wire. If a test fails here after an upgrade,
// go-zookeeper has been fixed, and the message names the workaround to remove.

// bareBetter returns the message of such a failure.
func bareBetter(workaround string) string {
	return "go-zookeeper has been fixed, so remove this workaround: " + workaround
}

// bareServers are addresses that only a test's dialer connects. There are many
// because go-zookeeper sleeps for a second after each pass through its list, and then
// fails the requests in its queue; see TestBareConnSleepsASecondWhenTheListWraps.
var bareServers = func() (servers []string) {
	for i := range 8 {
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", i+1))
	}
	return servers
}()

// bareConn returns a Conn as an ordinary program would create it, except that its
// dialer connects to target whatever the address.
func bareConn(t testing.TB, target string, timeout time.Duration) (*zk.Conn, *harness.Taps) {
	t.Helper()
	taps := harness.NewTaps(target)
	conn, events, err := zk.Connect(bareServers, timeout, zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	bareClosed(t, conn, events, taps)
	harness.Eventually(t, "a session", func() bool { return conn.State() == zk.StateHasSession })
	return conn, taps
}

// bareClosed closes the Conn, and the sockets that it leaves open, at the end of the
// test.
func bareClosed(t testing.TB, conn *zk.Conn, events <-chan zk.Event, taps *harness.Taps) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for range events {
		}
	})
	t.Cleanup(func() {
		conn.Close()
		for _, tap := range taps.All() {
			tap.Close()
		}
		wg.Wait()
	})
}

// bareReconnects waits until the Conn has a session after at least n connections.
func bareReconnects(t testing.TB, conn *zk.Conn, taps *harness.Taps, n int) {
	t.Helper()
	harness.Eventually(t, "reconnected", func() bool {
		return len(taps.All()) >= n && conn.State() == zk.StateHasSession
	})
}

// bareNode creates a znode and its parents, and returns its path and the connection
// that created it.
func bareNode(t testing.TB) (conn *zk.Conn, path string) {
	t.Helper()
	conn, path = harness.Raw(t), harness.NewPath(t)
	harness.MakeParents(t, conn, path)
	return conn, path
}

// bareFired reports whether an event has arrived.
func bareFired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}

const bareChildEnv = "ZKRECIPES_TEST_CHILD"

// bareChild runs the calling test in a process of its own, for tests that crash their
// process or leave goroutines that never end. In that process it returns true. In
// this one it returns what the process has printed, and its error if it failed.
func bareChild(t *testing.T) (child bool, output string, err error) {
	t.Helper()
	if os.Getenv(bareChildEnv) == t.Name() {
		return true, "", nil
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(harness.Within(t, 30*time.Second), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), bareChildEnv+"="+t.Name(), "ZK_SERVERS="+strings.Join(harness.Servers(), ","))
	out, err := cmd.CombinedOutput()
	return false, string(out), err
}

// bareSays prints a word for the parent and ends the child process.
func bareSays(word string) {
	fmt.Println("the child says:", word)
	os.Exit(0)
}

// bareNeedsRaceDetector skips the test without the race detector, and makes a data
// race end the child process.
func bareNeedsRaceDetector(t *testing.T) {
	if !recipetest.HasRaceDetector() {
		t.Skip("needs the race detector")
	}
	t.Setenv("GORACE", "halt_on_error=1")
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

// The session.

func TestBareConnRunsQueuedRequestsInTheNextSession(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	look, path := bareNode(t)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	old := conn.SessionID()
	password := p.Password(old)
	taps.Cut(t, p)
	made := make(chan error, 1)
	go func() {
		_, err := conn.Create(path+"/queued", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		made <- err
	}()
	harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(conn) == 1 })
	harness.EndSession(t, harness.Server(), old, password)
	taps.Release()

	require.NoError(t, <-made, bareBetter("a Conn for each session, and the dialer that keeps it from reconnecting after the session's end"))
	_, stat, err := look.Get(path + "/queued")
	require.NoError(t, err)
	require.NotEqual(t, old, stat.EphemeralOwner)
	require.Equal(t, conn.SessionID(), stat.EphemeralOwner)
}

func TestBareConnDoesNotCloseTheSocketOfAnExpiredSession(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	old := conn.SessionID()
	password := p.Password(old)
	taps.Cut(t, p)
	harness.EndSession(t, harness.Server(), old, password)
	taps.Release()
	harness.Eventually(t, "the next session", func() bool {
		return conn.State() == zk.StateHasSession && conn.SessionID() != old
	})
	all := taps.All()
	require.Len(t, all, 3)
	expired := all[1]
	require.Equal(t, []string{"connect"}, expired.Sent())
	expired.Mu.Lock()
	defer expired.Mu.Unlock()
	require.Zero(t, expired.Closed, bareBetter("wire.Conn closes itself once the session is over"))
}

func TestBareConnHidesTheNegotiatedTimeout(t *testing.T) {
	conn, _ := bareConn(t, harness.Server(), time.Hour)
	negotiated := reflect.ValueOf(conn).Elem().FieldByName("sessionTimeoutMs").Int()
	require.Less(t, negotiated, time.Hour.Milliseconds(), "the server has shortened the timeout")
	for i := range reflect.TypeOf(conn).NumMethod() {
		m := reflect.TypeOf(conn).Method(i)
		for j := range m.Type.NumOut() {
			require.NotEqual(t, reflect.TypeFor[time.Duration](), m.Type.Out(j),
				"%s: %s", m.Name, bareBetter("wire.Session reads the timeout from the ConnectResponse"))
		}
		require.NotContains(t, m.Name, "Timeout")
	}
}

func TestBareConnHasNoContexts(t *testing.T) {
	conn := reflect.TypeFor[*zk.Conn]()
	for i := range conn.NumMethod() {
		m := conn.Method(i)
		for j := range m.Type.NumIn() {
			require.NotEqual(t, reflect.TypeFor[context.Context](), m.Type.In(j),
				"%s: %s", m.Name, bareBetter("callers wait for a wire.Call, outside go-zookeeper"))
		}
	}
}

// A server that has lost its data, or lags behind what the client has seen, closes the
// connection after the ConnectRequest without an answer.
func TestBareConnIsRefusedForEverByServersThatAreBehind(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	id := conn.SessionID()
	taps.OnWrite(func(_ *harness.Tap, op string, frame []byte) (bool, error) {
		if op == "connect" {
			binary.BigEndian.PutUint64(frame[8:], math.MaxInt64) // last zxid seen
		}
		return false, nil
	})
	p.Drop()
	harness.Eventually(t, "some attempts", func() bool { return len(taps.All()) > 5 })
	for _, tap := range taps.All()[1:5] {
		tap.Mu.Lock()
		require.Zero(t, tap.Bytes, "an answer")
		tap.Mu.Unlock()
	}
	require.Equal(t, id, conn.SessionID(), bareBetter("wire.Session.Probe connects once more, with zxid 0"))
}

func TestBareConnGivesAHandshakeManyTimesTheTimeout(t *testing.T) {
	_, taps := bareConn(t, harness.Server(), time.Second)
	tap := taps.Newest()
	tap.Mu.Lock()
	defer tap.Mu.Unlock()
	require.Greater(t, tap.FirstDeadline, 6*time.Second, bareBetter("wire.Conn ignores go-zookeeper's deadlines"))
}

func TestBareConnWaitsTwoThirdsOfTheTimeoutForASilentServer(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	_, taps := bareConn(t, p.Addr(), time.Second)
	tap := taps.Newest()
	p.Stall()
	var silent time.Duration
	harness.Eventually(t, "closed", func() bool {
		tap.Mu.Lock()
		defer tap.Mu.Unlock()
		silent = tap.Closed.Sub(tap.LastRead)
		return !tap.Closed.IsZero()
	})
	require.Greater(t, silent, 600*time.Millisecond, bareBetter("wire.Conn's watchdog, of half the timeout"))
}

// Servers.

func TestBareConnResolvesNamesOnce(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	taps := harness.NewTaps(p.Addr())
	conn, events, err := zk.Connect([]string{"localhost:2181", "localhost:2182", "localhost:2183"}, 10*time.Second,
		zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	bareClosed(t, conn, events, taps)
	bareReconnects(t, conn, taps, 1)
	p.Drop()
	bareReconnects(t, conn, taps, 2)
	for _, addr := range taps.Asked() {
		host, _, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.NotNil(t, net.ParseIP(host), "%s: %s", addr, bareBetter("the HostProvider that passes names on"))
	}

	// A label of 64 characters is invalid, so no name server is asked.
	_, _, err = zk.Connect([]string{strings.Repeat("x", 64) + ".test", "localhost"}, 10*time.Second,
		zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.Error(t, err, bareBetter("the HostProvider that passes names on: one that does not resolve is one server less"))
}

func TestBareConnSleepsASecondWhenTheListWraps(t *testing.T) {
	var mu sync.Mutex
	var dialled []time.Time
	conn, events, err := zk.Connect([]string{"127.0.0.1:1"}, 10*time.Second,
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, time.Now())
			return nil, errors.New("refused")
		}), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	bareClosed(t, conn, events, harness.NewTaps(""))
	_, _, err = conn.Get("/")
	require.Equal(t, zk.ErrNoServer, err, bareBetter("the HostProvider that says retryStart only at the end"))
	harness.Eventually(t, "two attempts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(dialled) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, dialled[1].Sub(dialled[0]), time.Second, bareBetter("the HostProvider that says retryStart only at the end"))
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
	conn, events, err := zk.Connect([]string{"127.0.0.1:1"}, 10*time.Second, zk.WithHostProvider(hosts),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			dialled.Add(1)
			return nil, errors.New("refused")
		}), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	bareClosed(t, conn, events, harness.NewTaps(""))
	began := time.Now()
	harness.Eventually(t, "attempts", func() bool { return dialled.Load() >= 10_000 })
	require.Less(t, time.Since(began), 10*time.Second, bareBetter("zkconn.Session.pace"))

	conn.Close() // gives up after a second
	after := dialled.Load()
	require.Eventually(t, func() bool { return dialled.Load() > after+10_000 }, 10*time.Second, time.Millisecond,
		bareBetter("zkconn.Session.endLoop sends the loop round with retryStart"))
	hosts.retryStart.Store(true)
}

// Close.

func TestBareConnCloseTakesASecondWhileDisconnected(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	taps.Cut(t, p)
	began := time.Now()
	conn.Close()
	require.GreaterOrEqual(t, time.Since(began), time.Second, bareBetter("the order of events in zkconn.Session.endLoop"))
	taps.Release()
}

// A failed write sends an error to the channel of its request, and the loop sends
// another when it cleans up. With the one that Close sends there are three, in a
// channel of two. The last blocks for ever unless the caller receives.
func TestBareConnNeverEndsWhereAWriteFailsDuringClose(t *testing.T) {
	child, output, err := bareChild(t)
	if !child {
		require.NoError(t, err, output)
		require.Contains(t, output, "the child says: hangs", bareBetter("wire.Conn.Write never fails"))
		return
	}
	for range 40 { // each attempt hangs with a chance of about one half
		taps := harness.NewTaps(harness.Server())
		conn, events, err := zk.Connect(bareServers, 10*time.Second, zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range events {
			}
		}()
		harness.Eventually(t, "a session", func() bool { return conn.State() == zk.StateHasSession })
		writing, goOn := make(chan struct{}), make(chan struct{})
		var gets atomic.Int32
		taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
			switch {
			case op == "closeSession":
				return true, nil // as if the server was slow
			case op == "getData" && gets.Add(1) == 1:
				close(writing)
				<-goOn
			case op == "getData":
				return false, errors.New("broken")
			}
			return false, nil
		})
		go conn.Get("/")
		<-writing
		go conn.Close()
		harness.Eventually(t, "Close has begun", func() bool { return recipetest.QueuedRequests(conn) == 1 })
		for range 12 { // some are queued, and fail at once because of Close
			conn.Get("/")
		}
		close(goOn)
		harness.Eventually(t, "it ends, or is stuck", func() bool {
			select {
			case <-ended:
				return true
			default:
				return bareStuck()
			}
		})
		if bareStuck() {
			bareSays("hangs")
		}
	}
	bareSays("ends")
}

// Close makes a caller return, which then reads the struct into which the reply to its
// request is still being decoded.
func TestBareConnCreateContainerRacesAgainstClose(t *testing.T) {
	bareNeedsRaceDetector(t)
	child, output, err := bareChild(t)
	if !child {
		require.Error(t, err, bareBetter("zkconn.Session.Close waits for calls under way"))
		require.Contains(t, output, "DATA RACE")
		require.Contains(t, output, "zk.(*Conn).CreateContainer")
		return
	}
	p := harness.NewProxy(t, harness.Server())
	_, path := bareNode(t)
	conn, _ := bareConn(t, p.Addr(), 10*time.Second)
	answer := p.On("createContainer", 1, harness.HoldReply)
	go conn.CreateContainer(path+"/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	p.Await(answer)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn.Close()
	}()
	harness.Eventually(t, "Close has begun", func() bool { return p.CountOf("closeSession") == 1 })
	answer.Release()
	<-closed
	harness.Eventually(t, "ended", func() bool { return conn.State() == zk.StateDisconnected })
	bareSays("no race")
}

func TestBareConnHandsErrorsOfTheSocketToCallers(t *testing.T) {
	conn, taps := bareConn(t, harness.Server(), 10*time.Second)
	broken := errors.New("broken")
	taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
		if op == "getData" {
			return false, broken
		}
		return false, nil
	})
	_, _, err := conn.Get("/")
	require.Equal(t, broken, err, bareBetter("wire.Conn.Write never fails"))
}

// Credentials.

func TestBareConnHangsWhenReauthenticationIsCut(t *testing.T) {
	child, output, err := bareChild(t)
	if !child {
		require.NoError(t, err, output)
		require.Contains(t, output, "the child says: hangs", bareBetter("wire.Conn presents the credentials itself"))
		return
	}
	conn, taps := bareConn(t, harness.Server(), 10*time.Second)
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	var cut atomic.Bool
	taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
		if op == "auth" {
			cut.Store(true)
			return false, errors.New("connection reset")
		}
		return false, nil
	})
	taps.Newest().Close()
	harness.Eventually(t, "it hangs, or reconnects", func() bool {
		return bareStuck() || cut.Load() && len(taps.All()) > 2
	})
	if bareStuck() {
		bareSays("hangs")
	}
	bareSays("goes on")
}

// Frames.

func TestBareConnPanicsOnARequestThatJustFillsItsBuffer(t *testing.T) {
	child, output, err := bareChild(t)
	if !child {
		require.Error(t, err, bareBetter("the size of the buffer that zkconn.Session.Open asks for"))
		require.Contains(t, output, "index out of range")
		require.Contains(t, output, "zk.encodePacket")
		return
	}
	conn, _ := bareConn(t, harness.Server(), 10*time.Second)
	const buffer = 1536 << 10
	conn.Get("/" + strings.Repeat("x", buffer-4-8-4-1)) // one more byte follows: whether to set a watch
	bareSays("lives")
}

func TestBareConnPanicsOnATimeoutOfZero(t *testing.T) {
	child, output, err := bareChild(t)
	if !child {
		require.Error(t, err, bareBetter("wire.Conn refuses such a ConnectResponse"))
		require.Contains(t, output, "non-positive interval for NewTicker")
		return
	}
	client, server := net.Pipe()
	conn, _, err := zk.Connect(bareServers, 10*time.Second,
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return client, nil }),
		zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	_, err = jute.ReadFrame(server, 1000)
	require.NoError(t, err)
	b := jute.AppendInt64(jute.AppendInt32(jute.AppendInt32(nil, 0), 0), 7)
	_, err = server.Write(jute.Frame(jute.AppendBuffer(b, make([]byte, 16))))
	require.NoError(t, err)
	if _, err = jute.ReadFrame(server, 1000); err != nil {
		select {} // the panic closes the connection before it ends the process
	}
	conn.Close()
	bareSays("lives")
}

func TestBareConnDiesOfAFrameAboveTheLimit(t *testing.T) {
	conn, taps := bareConn(t, harness.Server(), 10*time.Second)
	const path = "/none-of-this-name"
	body := func(size int) []byte { return make([]byte, size-8-4-len(path)-4-4) }
	_, err := conn.Set(path, body(jute.MaxFrame), -1)
	require.Equal(t, zk.ErrNoNode, err, "the server answers a request of 1,048,575 bytes")
	require.Len(t, taps.All(), 1)
	_, err = conn.Set(path, body(jute.MaxFrame+1), -1)
	require.Error(t, err, "the server accepts more: jute.MaxFrame may grow")
	require.NotEqual(t, zk.ErrNoNode, err) // ErrConnectionClosed, or the socket's own
	bareReconnects(t, conn, taps, 2)
}

func TestBareConnWithMaxBufferSizeLosesTheConnectionOverALongListing(t *testing.T) {
	look, path := bareNode(t)
	for i := range 40 {
		_, err := look.Create(fmt.Sprintf("%s/%040d", path, i), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	taps := harness.NewTaps(harness.Server())
	conn, events, err := zk.Connect(bareServers, 10*time.Second, zk.WithMaxBufferSize(1024),
		zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	bareClosed(t, conn, events, taps)
	bareReconnects(t, conn, taps, 1)
	_, _, err = conn.Children(path)
	require.Equal(t, zk.ErrConnectionClosed, err, bareBetter("zkconn.Session.Open sets no WithMaxBufferSize"))
}
