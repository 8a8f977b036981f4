package fromgozookeeper

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A service moves from one library to the other while both run.
func TestBeforeAndAfterExcludeEachOther(t *testing.T) {
	srv := zktest.NewServer(t)
	zk.DefaultLogger = discard{}
	var inside, done atomic.Int32
	ship := func() error {
		if inside.Add(1) != 1 {
			t.Error("two hold the lock")
		}
		done.Add(1)
		inside.Add(-1)
		return nil
	}
	results := make(chan error)
	const each = 10
	for range each {
		go func() { results <- before([]string{srv.Addr()}, ship) }()
		go func() {
			results <- after(t.Context(), []string{srv.Addr()}, func(context.Context) error { return ship() })
		}()
	}
	for range 2 * each {
		require.NoError(t, <-results)
	}
	require.EqualValues(t, 2*each, done.Load())
}

type discard struct{}

func (discard) Printf(string, ...any) {}
