package operations

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	wait = 10 * time.Second
	tick = time.Millisecond
)

func (m *Metrics) value(name string) string {
	if v := m.Get(name); v != nil {
		return v.String()
	}
	return "0"
}

func TestMetricsCountGrantsLossesFailuresAndSessions(t *testing.T) {
	srv := zktest.NewServer(t)
	m := &Metrics{}
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Trace: m.Trace()})
	require.NoError(t, err)
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	lease, err := orders.Lock(t.Context())
	require.NoError(t, err)
	_, err = orders.TryLock(t.Context())
	require.Error(t, err) // refused
	require.NoError(t, lease.Release())

	lease, err = orders.Lock(t.Context())
	require.NoError(t, err)
	srv.Expire(srv.Sessions()[0].ID)
	<-lease.Context(t.Context()).Done()

	_, err = zkrecipes.NewSemaphore(client, "/locks/orders", 3).Acquire(t.Context())
	require.ErrorIs(t, err, zkrecipes.ErrPathInUse)

	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
	_, err = jobs.Put(t.Context(), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	handler := m.Handled(func(context.Context, *zkrecipes.Item) error {
		cancel()
		return errors.New("no paper")
	})
	require.NoError(t, jobs.Serve(ctx, handler))
	require.NoError(t, client.Close())

	want := map[string]string{
		"acquired mutex lock": "2", "wait mutex lock count": "2", "failed mutex try lock": "0",
		"lost mutex": "1", "held mutex count": "2", "lost queue": "0",
		"failed semaphore acquire": "1",
		"acquired queue serve":     "1", "failed queue serve": "0", "wait queue serve count": "0", "held queue count": "0",
		"handled /jobs count": "1", "handler failed /jobs": "1",
		"session connected": "2", "session expired": "1", "session closed": "1", "dropped": "0",
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for name, n := range want {
			require.Equal(c, n, m.value(name), name)
		}
	}, wait, tick)
}

// What hangs is seen while it hangs.
func TestTheOldestWaitAndHoldThatHaveNotEndedAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		m := &Metrics{}
		client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Dialer: srv.DialContext, Trace: m.Trace()})
		require.NoError(t, err)
		defer client.Close()
		oldest := func(want string) {
			t.Helper()
			synctest.Wait()
			require.JSONEq(t, want, m.value("oldest seconds"))
		}
		oldest(`{}`)
		orders, spare := zkrecipes.NewMutex(client, "/locks/orders"), zkrecipes.NewMutex(client, "/locks/spare")
		hanging, err := orders.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		lease, err := spare.Lock(t.Context())
		require.NoError(t, err)
		oldest(`{"hold mutex lock": 60}`)
		require.NoError(t, lease.Release())
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() {
			_, err := orders.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Minute)
		waits.Go(func() {
			lease, err := orders.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		})
		jobs := zkrecipes.NewQueue(client, "/jobs", nil)
		waits.Go(func() { // for an item, with nothing wrong
			_, err := jobs.Take(ctx)
			require.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Minute)
		oldest(`{"hold mutex lock": 180, "wait mutex lock": 120}`)
		cancel()
		oldest(`{"hold mutex lock": 180, "wait mutex lock": 60}`)
		require.NoError(t, hanging.Release())
		oldest(`{}`)
		waits.Wait()
	})
}

// After calls of the hooks were dropped it is not known what goes on.
func TestWhatBeganBeforeHooksWereDroppedIsNotShown(t *testing.T) {
	var o ongoing
	at := time.Now().Add(-time.Hour)
	hold := zkrecipes.TraceAcquireEnd{Time: at, Recipe: zkrecipes.RecipeMutex, Op: "lock", Path: "/a", Token: 256}
	o.acquireEnd(t.Context(), hold)
	require.Len(t, o.ages(), 1)
	o.holdEnd(zkrecipes.TraceHoldEnd{Path: "/b", Token: 256})
	require.Len(t, o.ages(), 1)
	o.holdEnd(zkrecipes.TraceHoldEnd{Path: "/b", Token: 256, Dropped: 1})
	require.Empty(t, o.ages())
	hold.Dropped = 1
	o.acquireEnd(t.Context(), hold)
	require.Len(t, o.ages(), 1)
}

func TestAProcessIsReadyWhileItIsConnectedAndAliveAlways(t *testing.T) {
	srv := zktest.NewServer(t)
	h := &Health{}
	code := func(probe http.HandlerFunc) int {
		w := httptest.NewRecorder()
		probe(w, httptest.NewRequest("GET", "/", nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, code(h.Alive))
	require.Equal(t, http.StatusServiceUnavailable, code(h.Ready), "Dial has not returned")
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	h.Client.Store(client)
	require.Equal(t, http.StatusOK, code(h.Ready))
	srv.Stop()
	require.Eventually(t, func() bool { return code(h.Ready) == http.StatusServiceUnavailable }, wait, tick)
	require.Equal(t, http.StatusOK, code(h.Alive))
	srv.Restart()
	require.Eventually(t, func() bool { return code(h.Ready) == http.StatusOK }, wait, tick)
}
