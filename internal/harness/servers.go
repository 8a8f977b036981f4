// Package harness holds what the tests of this module share: the server that
// they run on, a proxy that breaks connections, and calls in the background. It
// does not import the package under test, so that tests inside that package can
// use it.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// fixture holds the tests' server. Most tests share one. A test that stops its
// server, or needs other settings, starts its own.
var fixture struct {
	provider *zkserver.Provider // nil if the shared server is a zktest server
	shared   []string
}

// unreaped is how long servers keep empty containers unless a test wants it otherwise:
// longer than the tests take, as many of them count the requests for a line that exists.
const unreaped = time.Hour

// Run runs the tests on the server that the environment selects, and returns the exit
// code. It fails if the tests leave goroutines behind.
func Run(m *testing.M) int {
	if os.Getenv("ZK_HARNESS") == "zktest" && os.Getenv("ZK_SERVERS") == "" { // processes that tests start use their parent's server
		srv, err := zktest.Start(InProcess()...)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer srv.Close()
		fmt.Fprintln(os.Stderr, "ZooKeeper: zktest, in this process")
		fixture.shared = []string{srv.Addr()}
		return RunTests(m)
	}
	return WithServers(func(provider *zkserver.Provider) int {
		fixture.provider = provider
		if fixture.shared = provider.External(); fixture.shared == nil {
			node, err := provider.Start(context.Background(), unreaping(zkserver.Config{}))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			fixture.shared = []string{node.Addr()}
		}
		return RunTests(m)
	})
}

// WithServers calls f with what starts real servers, and returns its exit code.
func WithServers(f func(*zkserver.Provider) int) (code int) {
	provider, err := zkserver.Find(context.Background(), func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := provider.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	fmt.Fprintln(os.Stderr, "ZooKeeper:", provider)
	return f(provider)
}

// unreaping returns cfg for a server that keeps empty containers, unless cfg says how
// often it deletes them.
func unreaping(cfg zkserver.Config) zkserver.Config {
	if cfg.ReapEvery == 0 {
		cfg.ReapEvery = unreaped
	}
	return cfg
}

// InProcess returns opts after the options that give a zktest server the tick, the
// session timeouts and the patience with empty containers of the real servers.
func InProcess(opts ...zktest.Option) []zktest.Option {
	return append([]zktest.Option{
		zktest.TickTime(500 * time.Millisecond), zktest.SessionTimeouts(time.Second, 10*time.Second),
		zktest.ContainerCheckInterval(unreaped),
	}, opts...)
}

// RunTests runs the tests and fails if they leave goroutines behind.
func RunTests(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(before); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// OwnNode starts a server for one test, which may stop it.
func OwnNode(t testing.TB, cfg zkserver.Config) *zkserver.Node {
	t.Helper()
	NeedsOwn(t)
	node, err := fixture.provider.Start(t.Context(), unreaping(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return node
}

// NeedsVersion skips the test if this machine cannot run that version, or ZK_VERSION excludes it.
func NeedsVersion(t testing.TB, version string) {
	t.Helper()
	NeedsOwn(t)
	err := fixture.provider.Fetch(t.Context(), version)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// ensembles limits how many ensembles run at the same time: each is three JVMs.
var ensembles = make(chan struct{}, 2)

// OwnEnsemble starts three servers for one test.
func OwnEnsemble(t testing.TB, cfg zkserver.Config) *zkserver.Ensemble {
	t.Helper()
	NeedsOwn(t)
	ensembles <- struct{}{}
	t.Cleanup(func() { <-ensembles })
	e, err := fixture.provider.StartEnsemble(t.Context(), 3, unreaping(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Remove(context.Background())) })
	return e
}

// OwnServer starts a server for one test, which must not stop it, and returns its
// address. A real server is started with cfg, a zktest server with opts.
func OwnServer(t testing.TB, cfg zkserver.Config, opts ...zktest.Option) string {
	t.Helper()
	noteSelection()
	if fixture.provider == nil {
		return zktest.NewServer(t, InProcess(opts...)...).Addr()
	}
	return OwnNode(t, cfg).Addr()
}

// NeedsOwn skips the test if it cannot start real servers of its own.
func NeedsOwn(t testing.TB) {
	t.Helper()
	noteSelection()
	if fixture.provider == nil {
		t.Skip("needs a real server of its own, and the tests run on zktest")
	}
	if fixture.provider.External() != nil {
		t.Skip("needs a server of its own, and ZK_SERVERS names servers that tests may not stop")
	}
}

// Servers returns the addresses of the shared server.
func Servers() []string {
	noteSelection()
	return fixture.shared
}

// Server returns the address of the shared server.
func Server() string { return Servers()[0] }

// noteSelection reads the variables that select the server. go test caches a result by the
// variables that are read while the tests run. Without this, it would report the cached result
// of a run on another server.
func noteSelection() {
	for _, name := range []string{"ZK_SERVERS", "ZK_HARNESS", "ZK_IMAGE"} {
		_ = os.Getenv(name)
	}
}
