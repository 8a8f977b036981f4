package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// harness is the real server, which all cases share.
var harness struct {
	provider *zkserver.Provider
	node     *zkserver.Node // nil: one of ZK_SERVERS
	addr     string
	tick     time.Duration
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	provider, err := zkserver.Find(ctx, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := provider.Close(); err != nil {
			code = fail(err)
		}
	}()
	fmt.Fprintln(os.Stderr, "ZooKeeper:", provider)
	if err := prepareHarness(ctx, provider); err != nil {
		return fail(err)
	}
	leaks := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Idle connections to Docker's engine.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		// The server's process, if a case has restarted it.
		goleak.IgnoreAnyFunction("github.com/zkrecipes/zkrecipes/internal/zkserver.(*process).start.func1"),
	}
	if code = m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(leaks...); err != nil {
		return fail(err)
	}
	return 0
}

// prepareHarness starts the real server, unless ZK_SERVERS names one.
func prepareHarness(ctx context.Context, provider *zkserver.Provider) (err error) {
	harness.provider = provider
	if external := provider.External(); external != nil {
		harness.addr = external[0]
	} else {
		// Use ZooKeeper's defaults, except where they make it slow.
		node, err := provider.Start(ctx, zkserver.Config{JVMFlags: []string{
			"-Dzookeeper.extendedTypesEnabled=false",
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + SuperDigest(),
		}})
		if err != nil {
			return err
		}
		harness.node, harness.addr = node, node.Addr()
	}
	harness.tick, err = tickTime(ctx)
	return err
}

// tickTime returns the server's tick time. The shortest session timeout is two
// ticks.
func tickTime(ctx context.Context) (time.Duration, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", harness.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	b := jute.AppendInt64(jute.AppendInt32(nil, 0), 0)
	b = jute.AppendInt64(jute.AppendInt32(b, 1), 0)
	if _, err := conn.Write(jute.Frame(append(jute.AppendBuffer(b, make([]byte, 16)), 0))); err != nil {
		return 0, err
	}
	frame, err := jute.ReadFrame(conn, 100)
	if err != nil {
		return 0, fmt.Errorf("connect to %s: %w", harness.addr, err)
	}
	timeout := time.Duration(binary.BigEndian.Uint32(frame[8:])) * time.Millisecond
	if timeout == 0 {
		return 0, errors.New("no session")
	}
	// Close the session, or it would expire during a case.
	_, err = conn.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 0), jute.OpClose)))
	return timeout / 2, err
}

// reference returns the real server. The node is nil if the server is one of
// ZK_SERVERS.
func reference(addr string, node *zkserver.Node) Server {
	server := Server{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		TickTime: harness.tick,
		Shared:   node == nil,
	}
	if node != nil {
		if _, err := dataDir(context.Background(), node); err == nil {
			server.CounterNearEnd = counterNearEnd(node)
		}
	}
	return server
}

// testDouble returns a zktest server that is configured like the real one.
func testDouble(t *testing.T, opts ...zktest.Option) Server {
	srv := zktest.NewServer(t, append([]zktest.Option{
		zktest.TickTime(harness.tick),
		zktest.SessionTimeouts(2*harness.tick, 20*harness.tick),
		zktest.ContainerCheckInterval(500 * time.Millisecond),
	}, opts...)...)
	return Server{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return srv.DialContext(ctx, "tcp", srv.Addr())
		},
		TickTime:       harness.tick,
		Shared:         harness.node == nil,
		CounterNearEnd: srv.SetCounter,
	}
}

func TestZktestBehavesLikeZooKeeper(t *testing.T) {
	compare(t, Cases(), reference(harness.addr, harness.node), testDouble(t, zktest.SuperDigest(SuperDigest())))
}

func TestZktestBehavesLikeZooKeeperWithoutACLs(t *testing.T) {
	compare(t, SkipACLCases, ownServer(t, "-Dzookeeper.skipACL=yes"), testDouble(t, zktest.SkipACL()))
}

func TestZktestBehavesLikeZooKeeperWithoutDigest(t *testing.T) {
	compare(t, WithoutDigestCases,
		ownServer(t, "-Dzookeeper.DigestAuthenticationProvider.enabled=false"), testDouble(t, zktest.WithoutDigest()))
}

// ownServer starts a real server for one test.
func ownServer(t *testing.T, flags ...string) Server {
	if harness.node == nil {
		t.Skip("needs a server of its own, which ZK_SERVERS does not provide")
	}
	node, err := harness.provider.Start(t.Context(), zkserver.Config{JVMFlags: flags})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return reference(node.Addr(), node)
}

// compare runs the cases one after the other, each on both servers.
func compare(t *testing.T, cases []Case, reference, testDouble Server) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Exclusive && reference.Shared {
				t.Skip("cannot run on one of ZK_SERVERS")
			}
			// A session or a container of an earlier case can end during this one
			// and use up a zxid. A true difference shows again.
			const tries = 3
			for try := range tries {
				want, got := runBoth(t, c, reference, testDouble)
				if want == nil {
					t.Log("ran only on zktest: the real server's files are not accessible")
					return
				}
				if testing.Verbose() {
					t.Log("ZooKeeper's transcript:\n" + strings.Join(want, "\n"))
				}
				diff := Diff(want, got)
				if diff == "" {
					return
				}
				if t.Failed() || try == tries-1 {
					t.Errorf("zktest differs: - ZooKeeper, + zktest\n%s", diff)
					return
				}
			}
		})
	}
}

// runBoth runs a case on both servers concurrently. want is nil if the case cannot
// run on the real server.
func runBoth(t *testing.T, c Case, reference, testDouble Server) (want, got []string) {
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		if !c.CounterNearEnd || reference.CounterNearEnd != nil {
			want = Run(t, "ZooKeeper", reference, c)
		}
	}()
	got = Run(t, "zktest", testDouble, c)
	<-judged
	return want, got
}

func TestZktestBehavesLikeZooKeeperOnRandomRequests(t *testing.T) {
	seeds, steps := uint64(30), 80
	if n := os.Getenv("SEEDS"); n != "" {
		var err error
		seeds, err = strconv.ParseUint(n, 10, 64)
		require.NoError(t, err)
	}
	var cases []Case
	for seed := range seeds {
		cases = append(cases, Random(seed, steps))
	}
	compare(t, cases, reference(harness.addr, harness.node), testDouble(t))
}
