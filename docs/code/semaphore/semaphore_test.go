package semaphore

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A process is cut off from the servers and goes on with its calls. The servers give its slot
// to another process meanwhile. The service that is called does not notice that a caller
// is gone, and never has more than four calls.
func TestNoCallBeginsThatMayOutlastItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		var isCut atomic.Bool
		dial := func(mayBeCut bool) *zkrecipes.Client {
			client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if mayBeCut && isCut.Load() {
						return nil, context.DeadlineExceeded
					}
					return srv.DialContext(ctx, network, addr)
				},
			})
			require.NoError(t, err)
			t.Cleanup(func() { client.Close() })
			return client
		}
		first := dial(true)
		session := first.Status().Session
		var mu sync.Mutex
		running, calls, most := 0, 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			calls, most = calls+1, max(most, running)
		}
		tables := make([]string, 40)
		ended := make(chan error, 8)
		start := func(client *zkrecipes.Client, took time.Duration) {
			go func() {
				ended <- exportAll(t.Context(), client, tables, func(context.Context, int, string) error {
					count(1)
					defer count(-1)
					time.Sleep(took)
					return nil
				})
			}()
			synctest.Wait()
		}
		start(first, 1900*time.Millisecond)
		others := dial(false)
		for i := range 7 { // four of them wait
			start(others, 1501*time.Millisecond+time.Duration(i)*time.Millisecond)
		}
		isCut.Store(true)
		require.True(t, srv.Disconnect(session))
		require.ErrorIs(t, <-ended, errUnsure)
		for range 7 {
			require.NoError(t, <-ended)
		}
		require.Equal(t, 4, most)
		require.Greater(t, calls, 2*7*len(tables))
	})
}

func TestACallIsMadeInASlot(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	var calls []string
	require.NoError(t, exportAll(t.Context(), client, []string{"a", "b"}, func(ctx context.Context, slot int, table string) error {
		_, limited := ctx.Deadline()
		require.True(t, limited)
		require.Zero(t, slot)
		require.Len(t, srv.Children("/exports/slots"), 1)
		calls = append(calls, table)
		return nil
	}))
	require.Equal(t, []string{"a", "b"}, calls)
	err := exportAll(t.Context(), client, []string{"a", "b"}, func(context.Context, int, string) error { return context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, srv.Children("/exports/slots"))
}
