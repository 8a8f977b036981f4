package conformance

import (
	"cmp"
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

// forEachVersion runs f once with the default version of ZooKeeper or that of ZK_VERSION. With
// -long it runs f in parallel with all versions that can be run here.
func forEachVersion(t *testing.T, f func(t *testing.T, version string)) {
	if provider.External() != nil {
		t.Skip("needs a server that nobody else uses, which ZK_SERVERS does not provide")
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

// reference starts a real server for one test, with a tick of a second unless cfg has another.
func reference(t *testing.T, cfg zkserver.Config) (Server, *zkserver.Node) {
	cfg.TickTime = cmp.Or(cfg.TickTime, time.Second)
	node, err := provider.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	answer, err := node.Command(t.Context(), "srvr")
	require.NoError(t, err)
	server := Server{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", node.Addr())
		},
		TickTime: cfg.TickTime,
		Restart: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return errors.Join(node.Kill(ctx), node.Restart(ctx))
		},
	}
	for _, version := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		if strings.HasPrefix(answer, "Zookeeper version: "+version.String()+".") {
			server.Version = version
		}
	}
	require.NotZero(t, server.Version, "zktest emulates no such version: %q", answer)
	require.Contains(t, answer, "Zookeeper version: "+cfg.Version)
	if _, err := dataDir(t.Context(), node); err == nil {
		server.CounterNearEnd = counterNearEnd(node)
	}
	return server, node
}

// compare runs the cases on a real server, and on a zktest server that is configured like it.
func compare(t *testing.T, cases []Case, cfg zkserver.Config, opts ...zktest.Option) {
	real, _ := reference(t, cfg)
	double, _ := Double(t, real.Version, real.TickTime, opts...)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { compareCase(t, c, real, double) })
	}
}

func compareCase(t *testing.T, c Case, real, double Server) {
	if c.CounterNearEnd && real.CounterNearEnd == nil {
		Run(t, "zktest", double, c)
		t.Log("ran only on zktest: the real server's files are not accessible")
		return
	}
	// A session or a container of an earlier case can end during this one
	// and use up a zxid. A true difference shows again.
	const tries = 3
	for try := range tries {
		want, got := runBoth(t, c, real, double)
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
}

// runBoth runs a case on both servers concurrently.
func runBoth(t *testing.T, c Case, real, double Server) (want, got []string) {
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		want = Run(t, "ZooKeeper", real, c)
	}()
	got = Run(t, "zktest", double, c)
	<-judged
	return want, got
}

// byDefault has ZooKeeper's defaults, except where they make it slow.
func byDefault(version string, flags ...string) zkserver.Config {
	return zkserver.Config{Version: version, JVMFlags: append(flags, "-Dzookeeper.extendedTypesEnabled=false")}
}

func TestZktestBehavesLikeZooKeeper(t *testing.T) {
	forEachVersion(t, func(t *testing.T, version string) {
		cfg := byDefault(version, "-Dzookeeper.DigestAuthenticationProvider.superDigest="+SuperDigest())
		compare(t, Cases(), cfg, zktest.SuperDigest(SuperDigest()))
	})
}

// A session lasts a minute: a busy machine takes long to start a server, and to connect to it.
func TestZktestBehavesLikeZooKeeperThatWasRestarted(t *testing.T) {
	forEachVersion(t, func(t *testing.T, version string) {
		compare(t, RestartCases, zkserver.Config{Version: version, TickTime: 3 * time.Second})
	})
}

func TestZktestBehavesLikeZooKeeperWithOtherSettings(t *testing.T) {
	flag := func(flag string) zkserver.Config { return zkserver.Config{JVMFlags: []string{flag}} }
	sasl := func(flags []string) zkserver.Config {
		return harness.JAAS{Server: harness.DigestUsers(SASLUsers), Flags: flags}.Config(zkserver.Config{})
	}
	forEachVersion(t, func(t *testing.T, version string) {
		for name, s := range map[string]struct {
			cfg   zkserver.Config
			cases []Case
			opts  []zktest.Option
		}{
			"with TTL":       {zkserver.Config{}, TTLCases, []zktest.Option{zktest.ExtendedTypes()}}, // the harness's default
			"without ACLs":   {flag("-Dzookeeper.skipACL=yes"), SkipACLCases, []zktest.Option{zktest.SkipACL()}},
			"without digest": {flag("-Dzookeeper.DigestAuthenticationProvider.enabled=false"), WithoutDigestCases, []zktest.Option{zktest.WithoutDigest()}},
			"with SASL":      {sasl(nil), SASLCases, []zktest.Option{zktest.SASL(SASLUsers)}},
			"requires SASL":  {sasl(harness.RequireSASL), RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
			"enforces SASL":  {sasl(harness.EnforceSASL), RequiredSASLCases, []zktest.Option{zktest.SASL(SASLUsers), zktest.RequireSASL()}},
		} {
			t.Run(name, func(t *testing.T) {
				s.cfg.Version = version
				compare(t, s.cases, s.cfg, s.opts...)
			})
		}
	})
}

func TestZktestBehavesLikeZooKeeperOnRandomRequests(t *testing.T) {
	seeds, err := strconv.ParseUint(cmp.Or(os.Getenv("SEEDS"), "30"), 10, 64)
	require.NoError(t, err)
	var cases []Case
	for seed := range seeds {
		cases = append(cases, Random(seed, 80))
	}
	forEachVersion(t, func(t *testing.T, version string) { compare(t, cases, byDefault(version)) })
}
