package line_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The requests that a Mutex sends, by operation.

// The hand-over is an event, takes no request, and wakes one of N waiters, each of which is in
// a session of its own.
func TestContendedCycleTakesFiveRequestsHoweverManyWait(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := harness.NewProxy(t, harness.Server())
			ctx := harness.Within(t, 60*time.Second)
			path := harness.NewPath(t)
			// Not through the proxy, as a holder watches its own place after a while.
			holder := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), path))

			// Each client knows the line already, so that its first read of the line is
			// not counted.
			clients := make([]*zkrecipes.Client, n)
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() { clients[i] = recipetest.DialTo(t, []string{p.Addr()}, nil) })
			}
			wg.Wait()
			for _, c := range clients {
				recipetest.LineOf(zkrecipes.NewMutex(c, path)).Remember(line.LineState{Version: -1})
			}
			p.Reset()
			granted := make(chan *zkrecipes.Lease, n)
			for _, c := range clients {
				wg.Go(func() {
					l, err := zkrecipes.NewMutex(c, path).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					granted <- l
				})
			}
			require.Eventually(t, func() bool { return p.CountOf("getData") == 2*n && p.CountOf(opACLProbe) == n },
				30*time.Second, 5*time.Millisecond)
			p.Reset()
			require.NoError(t, holder.Release())
			for i := range n {
				current := <-granted
				require.Equal(t, i, p.CountOf(recipetest.OpRelease))
				require.Len(t, p.Count(), min(i, 1), "releases, and nothing else: %v", p.Count())
				require.Empty(t, granted, "a release wakes one waiter")
				require.NoError(t, current.Release())
			}
			wg.Wait()
			require.Equal(t, n, recipetest.Sum(p.Count()), "releases, and nothing else: %v", p.Count())
		})
	}
}
