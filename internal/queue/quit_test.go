package queue_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The pools' lock makes the Take leave first, and its claim end right behind that, before the
// Take goes on: a sync.Mutex for which somebody has waited for a millisecond hands itself to the
// one that waits longest. A bubble cannot wait for a mutex.
func TestATakeThatEndsAsItsClaimIsAnsweredReturnsNoItemThatGoesToAnother(t *testing.T) {
	srv := zktest.NewServer(t, zktest.InMemory())
	link := harness.NewLink(srv)
	core := recipetest.NewCore(t, []string{srv.Addr()}, link.Dial)
	q := engine(core, "/jobs", queue.Options{})
	require.NoError(t, q.Put(t.Context(), queue.NewItems(bytesOf("x"))))
	srv.Plan().Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpClaimAlone, After: true, For: time.Second / 2})
	ctx, cancel := context.WithCancel(t.Context())
	first := harness.Go(t, func(context.Context) ([]*queue.Item, error) { return q.Take(ctx, 1) })
	harness.Eventually(t, "the claim is made", func() bool { return srv.Plan().Fired()["delay after"] > 0 })
	link.Stop()

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a goroutine that wakes up runs next
	mu := &queue.PoolsOf(core.Client).Mu
	mu.Lock()
	cancel()
	harness.Eventually(t, "the Take leaves", func() bool { return waitsForLock("(*Queue).takeN(") })
	link.Resume()
	harness.Eventually(t, "its claim ends", func() bool { return waitsForLock("(*takerPool).hand(") })
	mu.Unlock()
	mu.Lock() // so the Take has woken up in vain, and the lock is handed on in order
	for range 100 {
		runtime.Gosched()
	}
	mu.Unlock()

	items, err := first.Wait()
	if err == nil {
		require.NoError(t, q.Put(t.Context(), queue.NewItems(bytesOf("y")))) // for the next one
	} else {
		require.ErrorIs(t, err, context.Canceled)
	}
	next, err := q.Take(harness.Within(t, 2*time.Minute), 1)
	require.NoError(t, err)
	require.True(t, len(items) == 0 || items[0].Claim.ID() != next[0].Claim.ID(), "the item goes to both")
}

// waitsForLock reports whether a goroutine waits for a mutex in this function of the package.
func waitsForLock(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for goroutine := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(goroutine, "sync.(*Mutex).Lock") && strings.Contains(goroutine, "/internal/queue."+function) {
			return true
		}
	}
	return false
}
