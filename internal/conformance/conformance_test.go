package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var provider *zkserver.Provider

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	provider, err = zkserver.Find(context.Background(), func(format string, args ...any) {
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
	before := goleak.IgnoreCurrent()
	if code = m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(before); err != nil {
		return fail(err)
	}
	return 0
}

// forEachVersion runs f once with the default version of ZooKeeper, that of ZK_VERSION or that
// of ZK_SERVERS. With -long it runs f in parallel with all versions that can be run here.
func forEachVersion(t *testing.T, f func(t *testing.T, version string)) {
	if provider.External() != nil {
		t.Run("external", func(t *testing.T) { f(t, "") })
		return
	}
	ran := 0
	for _, version := range zkserver.Versions {
		if version != zkserver.Versions[0] && os.Getenv("ZK_VERSION") == "" && !recipetest.Long() {
			continue
		}
		err := provider.Fetch(t.Context(), version)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Log(err)
			continue
		}
		require.NoError(t, err)
		ran++
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f(t, version)
		})
	}
	require.Positive(t, ran, "no version can be run")
}

// realServer starts a real server for one test, or returns the first of
// ZK_SERVERS.
func realServer(t *testing.T, version string, flags ...string) Server {
	if external := provider.External(); external != nil {
		return reference(t, external[0], nil)
	}
	return ownServer(t, zkserver.Config{Version: version, JVMFlags: flags, TickTime: time.Second})
}

// ownServer starts a real server for one test.
func ownServer(t *testing.T, cfg zkserver.Config) Server {
	node, err := provider.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return reference(t, node.Addr(), node)
}

// reference returns the real server at addr. The node is nil if the server is one
// of ZK_SERVERS.
func reference(t *testing.T, addr string, node *zkserver.Node) Server {
	server := Server{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		Shared: node == nil,
	}
	var err error
	for range 10 { // a busy server may take longer to open the session than such a session lasts
		server.TickTime, err = tickTime(t.Context(), server)
		if !errors.Is(err, io.EOF) {
			break
		}
	}
	require.NoError(t, err)
	server.Version, err = versionOf(t.Context(), server)
	require.NoError(t, err)
	if node != nil {
		server.Restart = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return errors.Join(node.Kill(ctx), node.Restart(ctx))
		}
		if _, err := dataDir(t.Context(), node); err == nil {
			server.CounterNearEnd = counterNearEnd(node)
		}
	}
	return server
}

// tickTime returns the server's tick time. The shortest session timeout is two
// ticks.
func tickTime(ctx context.Context, server Server) (time.Duration, error) {
	conn, err := server.Dial(ctx)
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
		return 0, fmt.Errorf("connect: %w", err)
	}
	timeout := time.Duration(binary.BigEndian.Uint32(frame[8:])) * time.Millisecond
	if timeout == 0 {
		return 0, errors.New("no session")
	}
	// Close the session, or it would expire during a case.
	_, err = conn.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 0), jute.OpClose)))
	return timeout / 2, err
}

// versionOf asks the server for its version.
func versionOf(ctx context.Context, server Server) (zktest.Version, error) {
	conn, err := server.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	for version, name := range map[zktest.Version]string{zktest.ZooKeeper38: "3.8", zktest.ZooKeeper39: "3.9"} {
		if strings.HasPrefix(string(answer), "Zookeeper version: "+name+".") {
			return version, nil
		}
	}
	return 0, fmt.Errorf("zktest emulates no such version: %q", answer)
}

// testDouble returns a zktest server that is configured like the real one.
func testDouble(t *testing.T, real Server, opts ...zktest.Option) Server {
	double := Double(t, real.Version, real.TickTime, opts...)
	double.Shared = real.Shared
	return double
}

func TestZktestBehavesLikeZooKeeper(t *testing.T) {
	forEachVersion(t, func(t *testing.T, version string) {
		// ZooKeeper's defaults, except where they make it slow.
		real := realServer(t, version, "-Dzookeeper.extendedTypesEnabled=false",
			"-Dzookeeper.DigestAuthenticationProvider.superDigest="+SuperDigest())
		compare(t, Cases(), real, testDouble(t, real, zktest.SuperDigest(SuperDigest())))
	})
}

// A session lasts a minute: a busy machine takes long to start a server, and to connect to it.
func TestZktestBehavesLikeZooKeeperThatWasRestarted(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		real := ownServer(t, zkserver.Config{Version: version, TickTime: 3 * time.Second})
		compare(t, RestartCases, real, testDouble(t, real))
	})
}

func TestZktestBehavesLikeZooKeeperWithoutACLs(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		real := realServer(t, version, "-Dzookeeper.skipACL=yes")
		compare(t, SkipACLCases, real, testDouble(t, real, zktest.SkipACL()))
	})
}

func TestZktestBehavesLikeZooKeeperWithoutDigest(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		real := realServer(t, version, "-Dzookeeper.DigestAuthenticationProvider.enabled=false")
		compare(t, WithoutDigestCases, real, testDouble(t, real, zktest.WithoutDigest()))
	})
}

func TestZktestBehavesLikeZooKeeperWithSASL(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		real := saslServer(t, version, nil)
		compare(t, SASLCases, real, testDouble(t, real, zktest.SASL(SASLUsers)))
	})
}

func TestZktestBehavesLikeZooKeeperThatRequiresSASL(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		for _, flags := range [][]string{harness.RequireSASL, harness.EnforceSASL} {
			real := saslServer(t, version, flags)
			compare(t, RequiredSASLCases, real, testDouble(t, real, zktest.SASL(SASLUsers), zktest.RequireSASL()))
		}
	})
}

// saslServer starts a real server with SASLUsers.
func saslServer(t *testing.T, version string, flags []string) Server {
	jaas := harness.JAAS{Server: harness.DigestUsers(SASLUsers), Flags: flags}
	return ownServer(t, jaas.Config(zkserver.Config{Version: version}))
}

func needsOwn(t *testing.T) {
	if provider.External() != nil {
		t.Skip("needs a server of its own, which ZK_SERVERS does not provide")
	}
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
				if slices.Equal(want, got) {
					return
				}
				if t.Failed() || try == tries-1 {
					require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "zktest (actual) differs from ZooKeeper (expected)")
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
	forEachVersion(t, func(t *testing.T, version string) {
		real := realServer(t, version, "-Dzookeeper.extendedTypesEnabled=false")
		compare(t, cases, real, testDouble(t, real))
	})
}
