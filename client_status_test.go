package zkrecipes_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What a Client tells of its connection: Status, Ping, and the Logger's records.

func TestStatusFollowsTheConnectionAndTheSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		began := time.Now()
		c := w.Stranger(nil)
		session := w.Srv.Sessions()[0].ID
		connected := zkrecipes.Status{Connected: true, Server: w.Srv.Addr(), Session: session, Timeout: 10 * time.Second, Since: began, MaxZnodeBytes: 943_717}
		same := func(want zkrecipes.Status) {
			t.Helper()
			require.Empty(t, w.Requests(func() {
				now := c.Status()
				require.WithinDuration(t, want.Since, now.Since, 10*time.Millisecond)
				now.Since = want.Since
				require.Equal(t, want, now)
			}))
		}
		same(connected)
		time.Sleep(time.Minute)
		same(connected)

		lostAt := time.Now()
		w.Away(c)
		same(zkrecipes.Status{Session: session, Timeout: 10 * time.Second, Since: lostAt, MaxZnodeBytes: 943_717})
		time.Sleep(time.Second)
		w.Back()
		time.Sleep(time.Second)
		require.True(t, c.Status().Connected)
		require.Equal(t, session, c.Status().Session)
		require.WithinDuration(t, lostAt.Add(time.Second), c.Status().Since, time.Second)

		lostAt = time.Now()
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Skip: 1, Times: -1}) // it learns of the end
		require.True(t, w.Srv.Expire(session))
		time.Sleep(5 * time.Second)
		same(zkrecipes.Status{Since: lostAt})
		w.Back()
		time.Sleep(5 * time.Second)
		require.True(t, c.Status().Connected)
		require.Equal(t, w.Srv.Sessions()[0].ID, c.Status().Session)
		require.NotEqual(t, session, c.Status().Session)

		require.NoError(t, c.Close())
		same(zkrecipes.Status{Since: time.Now()})
	})
	require.Zero(t, (*zkrecipes.Client)(nil).Status())
	require.Zero(t, new(zkrecipes.Client).Status())
}

func TestPingWaitsForAnAnswerThroughTheEndOfTheSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		w.Away(c)
		ping := harness.GoErr(t, c.Ping)
		time.Sleep(time.Second)
		require.True(t, ping.Waiting())
		w.Srv.Expire(recipetest.SessionID(c))
		w.Back()
		ping.Get()

		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "sync", Times: -1})
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Ping(soon)
		require.EqualError(t, err, "zkrecipes: ping "+w.Srv.Addr()+": context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.Back()

		require.EqualError(t, (*zkrecipes.Client)(nil).Ping(t.Context()), `zkrecipes: ping "": nil client`)
		require.EqualError(t, new(zkrecipes.Client).Ping(t.Context()), `zkrecipes: ping "": client was not made by Dial`)
		_ = c.Close()
		require.EqualError(t, c.Ping(t.Context()), "zkrecipes: ping "+w.Srv.Addr()+": client closed")
	})
}

// asking is the handler of a Logger that asks for the Client's Status, to decide which records it wants.
type asking struct {
	slog.Handler
	c atomic.Pointer[zkrecipes.Client]
}

func (h *asking) Enabled(_ context.Context, level slog.Level) bool {
	c := h.c.Load()
	return level >= slog.LevelInfo || c != nil && !c.Status().Connected
}

func TestALoggersHandlerCanAskForTheStatus(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		h := &asking{Handler: slog.DiscardHandler}
		c := w.Stranger(&zkrecipes.Options{Logger: slog.New(h)})
		h.c.Store(c)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "connect", Times: 3}, zktest.Fault{Do: zktest.Refuse, Skip: 3, Times: 3})
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(10 * time.Second)
		require.True(t, c.Status().Connected)
	})
}

// docs/capacity.md says how much. The server's share is counted, too.
func TestAClientTakesLittleMemoryAndFewGoroutines(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 50
		lock := func() {
			require.NoError(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Do(t.Context(), recipetest.Nothing))
			synctest.Wait()
		}
		lock()
		heap, goroutines := recipetest.HeldHeap(), runtime.NumGoroutine()
		for range n {
			lock()
		}
		require.Less(t, (recipetest.HeldHeap()-heap)/n, int64(100_000))
		require.LessOrEqual(t, (runtime.NumGoroutine()-goroutines)/n, 10)
	})
}
