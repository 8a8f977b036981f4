package harness

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Children returns the names of a znode's children. It returns none if the znode does
// not exist.
func Children(t testing.TB, conn *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := conn.Children(path)
	if err != zk.ErrNoNode {
		require.NoError(t, err)
	}
	return names
}

// patience returns how long to wait for what must come. A minute or more bounds only what never comes.
// On a real server and a busy machine, all that a test does may take longer, so it is five times as long
// there.
func patience(d time.Duration) time.Duration {
	if fixture.provider != nil && d >= time.Minute {
		return 5 * d
	}
	return d
}

// Eventually waits until f returns true.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patience(time.Minute), 5*time.Millisecond, what)
}

// Cause waits until a context has ended, and returns its cause.
func Cause(t testing.TB, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience(time.Minute)):
		require.FailNow(t, "the context does not end")
		return nil
	}
}

// Within returns a context that ends after d, for calls that must not hang.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience(d))
	t.Cleanup(cancel)
	return ctx
}

var paths sync.Map

// NewPath returns a path that no other test uses.
func NewPath(t testing.TB) string {
	name := strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(t.Name())
	n, _ := paths.LoadOrStore(name, new(int))
	*n.(*int)++
	return fmt.Sprintf("/test/%d/%s/%d", time.Now().UnixNano(), name, *n.(*int))
}

// MakeParents creates a persistent znode and its parents, unless they exist.
func MakeParents(t testing.TB, conn *zk.Conn, znode string) {
	t.Helper()
	if above := path.Dir(znode); above != "/" {
		MakeParents(t, conn, above)
	}
	if _, err := conn.Create(znode, nil, 0, zk.WorldACL(zk.PermAll)); err != zk.ErrNodeExists {
		require.NoError(t, err)
	}
}
