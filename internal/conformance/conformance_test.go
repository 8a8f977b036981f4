package conformance

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var provider *zkserver.Provider

func TestMain(m *testing.M) {
	os.Exit(harness.WithServers(func(p *zkserver.Provider) int {
		provider = p
		return harness.RunTests(m)
	}))
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
	s := newScript(t, server)
	defer s.end()
	var shortest *Client // its session lasts for two ticks
	for range 10 {       // a busy server may take longer to open it
		shortest = s.Dial("shortest")
		if shortest.handshake(ConnectRequest{Timeout: 1, ReadOnly: []byte{0}}); !shortest.dead {
			break
		}
	}
	require.NotZero(t, shortest.ID, "no session")
	server.TickTime = shortest.Timeout / 2
	answer := s.FourLetterWord("srvr")
	for _, version := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		if strings.HasPrefix(answer, "Zookeeper version: "+version.String()+".") {
			server.Version = version
		}
	}
	require.NotZero(t, server.Version, "zktest emulates no such version: %q", answer)
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

func TestZktestBehavesLikeZooKeeperWithOtherSettings(t *testing.T) {
	needsOwn(t)
	flag := func(flag string) zkserver.Config {
		return zkserver.Config{JVMFlags: []string{flag}, TickTime: time.Second}
	}
	sasl := func(flags []string) zkserver.Config {
		return harness.JAAS{Server: harness.DigestUsers(SASLUsers), Flags: flags}.Config(zkserver.Config{})
	}
	forEachVersion(t, func(t *testing.T, version string) {
		for name, s := range map[string]struct {
			cfg   zkserver.Config
			cases []Case
			opts  []zktest.Option
		}{
			"without ACLs":   {flag("-Dzookeeper.skipACL=yes"), SkipACLCases, []zktest.Option{zktest.SkipACL()}},
			"without digest": {flag("-Dzookeeper.DigestAuthenticationProvider.enabled=false"), WithoutDigestCases, []zktest.Option{zktest.WithoutDigest()}},
			"with SASL":      {sasl(nil), SASLCases, []zktest.Option{zktest.SASL(SASLUsers)}},
			"requires SASL":  {sasl(harness.RequireSASL), RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
			"enforces SASL":  {sasl(harness.EnforceSASL), RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
		} {
			t.Run(name, func(t *testing.T) {
				s.cfg.Version = version
				real := ownServer(t, s.cfg)
				compare(t, s.cases, real, testDouble(t, real, s.opts...))
			})
		}
	})
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
