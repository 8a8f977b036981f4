package zkrecipes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The harness: where the tests' ZooKeeper comes from. Tests that may share a
// server share one; those that stop it, or set it up otherwise, have their own.
//
// With ZK_HARNESS=zktest it is one inside the process. All recipe tests run on
// that too; those that end servers' processes, or need several, cannot.

var harness struct {
	provider *zkserver.Provider // nil: zktest
	shared   []string
}

// unreaped is how long the shared server lets empty containers stand: longer
// than the tests last, as many count what the use of a line costs.
const unreaped = time.Hour

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	if os.Getenv("ZK_HARNESS") == "zktest" && os.Getenv("ZK_SERVERS") == "" { // the tests' own processes use the parent's
		srv, err := zktest.Start(inProcess(zktest.ContainerCheckInterval(unreaped))...)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer srv.Close()
		fmt.Fprintln(os.Stderr, "ZooKeeper: zktest, in this process")
		harness.shared = []string{srv.Addr()}
		return runTests(m)
	}
	ctx := context.Background()
	provider, err := zkserver.Find(ctx, func(format string, args ...any) {
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
	harness.provider = provider
	if harness.shared = provider.External(); harness.shared == nil {
		interval := fmt.Sprint("-Dznode.container.checkIntervalMs=", unreaped.Milliseconds())
		node, err := provider.Start(ctx, zkserver.Config{JVMFlags: []string{interval}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		harness.shared = []string{node.Addr()}
	}
	return runTests(m)
}

// inProcess is how zktest serves as the harness's real servers do.
func inProcess(opts ...zktest.Option) []zktest.Option {
	return append([]zktest.Option{
		zktest.TickTime(500 * time.Millisecond), zktest.SessionTimeouts(time.Second, 10*time.Second),
	}, opts...)
}

// runTests runs the tests and fails if they leave goroutines behind.
func runTests(m *testing.M) int {
	options := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Idle connections to Docker's engine; the library speaks no HTTP.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ownNode starts a server for one test.
func ownNode(t testing.TB, cfg zkserver.Config) *zkserver.Node {
	t.Helper()
	needsOwn(t)
	node, err := harness.provider.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return node
}

// ownEnsemble starts three servers for one test.
func ownEnsemble(t testing.TB, cfg zkserver.Config) *zkserver.Ensemble {
	t.Helper()
	needsOwn(t)
	e, err := harness.provider.StartEnsemble(t.Context(), 3, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Remove(context.Background())) })
	return e
}

// ownServer starts a server for one test that only uses it, and returns its
// address: cfg says how where it is a real one, opts where it is not.
func ownServer(t testing.TB, cfg zkserver.Config, opts ...zktest.Option) string {
	t.Helper()
	if harness.provider == nil {
		return zktest.NewServer(t, inProcess(opts...)...).Addr()
	}
	return ownNode(t, cfg).Addr()
}

func needsOwn(t testing.TB) {
	t.Helper()
	if harness.provider == nil {
		t.Skip("needs servers that are processes of their own; runs on real ones")
	}
	if harness.provider.External() != nil {
		t.Skip("needs a server of its own, and ZK_SERVERS names servers that only may be used")
	}
}

// dial returns a Client on the shared server, closed at the end of the test.
func dial(t testing.TB, opts *Options) *Client {
	t.Helper()
	return dialTo(t, harness.shared, opts)
}

func dialTo(t testing.TB, servers []string, opts *Options) *Client {
	t.Helper()
	c, err := Dial(within(t, 30*time.Second), servers, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// within bounds what must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

var paths sync.Map

// newPath returns a path that no other test uses.
func newPath(t testing.TB) string {
	name := strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(t.Name())
	n, _ := paths.LoadOrStore(name, new(int))
	*n.(*int)++
	return fmt.Sprintf("/test/%d/%s/%d", time.Now().UnixNano(), name, *n.(*int))
}

// raw returns a bare go-zookeeper Conn to the shared server.
func raw(t testing.TB) *zk.Conn {
	t.Helper()
	return rawTo(t, harness.shared)
}

func rawTo(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}
