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

// The real server, one for all cases.
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
	harness.provider = provider
	if external := provider.External(); external != nil {
		harness.addr = external[0]
	} else {
		// As a server is by default, save for what makes it quick.
		node, err := provider.Start(ctx, zkserver.Config{JVMFlags: []string{
			"-Dzookeeper.extendedTypesEnabled=false",
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + SuperDigest(),
		}})
		if err != nil {
			return fail(err)
		}
		harness.node, harness.addr = node, node.Addr()
	}
	if harness.tick, err = tickTime(ctx); err != nil {
		return fail(err)
	}
	leaks := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Idle connections to Docker's engine.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		// The server's process, where a case has it started again.
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

// tickTime asks for the shortest timeout, which is two ticks.
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
	// Ended now, or it would expire in the middle of a case.
	_, err = conn.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 0), jute.OpClose)))
	return timeout / 2, err
}

// judge returns the real server as the cases want it; node is nil for one of
// ZK_SERVERS.
func judge(addr string, node *zkserver.Node) Server {
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

// double returns a zktest server that is set up like the judge.
func double(t *testing.T, opts ...zktest.Option) Server {
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

func TestZktestAnswersAsZooKeeperDoes(t *testing.T) {
	compare(t, Cases(), judge(harness.addr, harness.node), double(t, zktest.SuperDigest(SuperDigest())))
}

func TestZktestAnswersAsZooKeeperWithoutACLs(t *testing.T) {
	compare(t, SkipACLCases, own(t, "-Dzookeeper.skipACL=yes"), double(t, zktest.SkipACL()))
}

func TestZktestAnswersAsZooKeeperWithoutDigest(t *testing.T) {
	compare(t, WithoutDigestCases,
		own(t, "-Dzookeeper.DigestAuthenticationProvider.enabled=false"), double(t, zktest.WithoutDigest()))
}

// own starts a real server for one test.
func own(t *testing.T, flags ...string) Server {
	if harness.node == nil {
		t.Skip("needs a server of its own, and ZK_SERVERS names servers that only may be used")
	}
	node, err := harness.provider.Start(t.Context(), zkserver.Config{JVMFlags: flags})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return judge(node.Addr(), node)
}

// compare runs each case on both, one after the other.
func compare(t *testing.T, cases []Case, judge, double Server) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Alone && judge.Shared {
				t.Skip("not on one of ZK_SERVERS")
			}
			// A session or a container of an earlier case can end in the middle of
			// this one, and take a zxid. What differs for a reason differs again.
			const tries = 3
			for try := range tries {
				want, got := both(t, c, judge, double)
				if want == nil {
					t.Log("on zktest only: the real server's files can not be reached")
					return
				}
				if testing.Verbose() {
					t.Log("ZooKeeper's answers:\n" + strings.Join(want, "\n"))
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

// both runs a case on both servers at the same time. want is nil where the judge
// cannot be asked.
func both(t *testing.T, c Case, judge, double Server) (want, got []string) {
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		if !c.CounterNearEnd || judge.CounterNearEnd != nil {
			want = Run(t, "ZooKeeper", judge, c)
		}
	}()
	got = Run(t, "zktest", double, c)
	<-judged
	return want, got
}

func TestZktestAnswersAsZooKeeperDoesAtRandom(t *testing.T) {
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
	compare(t, cases, judge(harness.addr, harness.node), double(t))
}
