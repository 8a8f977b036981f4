package zkrecipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What a Client tells of its connection: Status, Ping, and the Logger's records.

func TestStatusFollowsTheConnectionAndTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		c := w.stranger(nil)
		session := sessionID(c)
		connected := Status{Connected: true, Server: w.srv.Addr(), Session: session, Timeout: 10 * time.Second, Since: began}
		same := func(want Status) {
			t.Helper()
			require.Empty(t, w.requests(func() {
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
		w.away(c)
		same(Status{Session: session, Timeout: 10 * time.Second, Since: lostAt})
		time.Sleep(time.Second)
		w.back()
		time.Sleep(time.Second)
		require.True(t, c.Status().Connected)
		require.Equal(t, session, c.Status().Session)
		require.WithinDuration(t, lostAt.Add(time.Second), c.Status().Since, time.Second)

		lostAt = time.Now()
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Skip: 1, Times: -1}) // it learns of the end
		require.True(t, w.srv.Expire(session))
		time.Sleep(5 * time.Second)
		same(Status{Since: lostAt})
		w.back()
		time.Sleep(5 * time.Second)
		require.True(t, c.Status().Connected)
		require.Equal(t, sessionID(c), c.Status().Session)
		require.NotEqual(t, session, c.Status().Session)

		require.NoError(t, c.Close())
		same(Status{Since: time.Now()})
	})
	require.Zero(t, (*Client)(nil).Status())
	require.Zero(t, new(Client).Status())
}

func TestPingIsOneSync(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		require.Equal(t, map[string]int{"sync": 1}, w.requests(func() { require.NoError(t, c.Ping(t.Context())) }))
	})
}

func TestPingWaitsForAnAnswerThroughTheEndOfTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		w.away(c)
		ping := harness.GoErr(t, c.Ping)
		time.Sleep(time.Second)
		require.True(t, ping.Waiting())
		w.srv.Expire(sessionID(c))
		w.back()
		_, err := ping.Wait()
		require.NoError(t, err)

		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "sync", Times: -1})
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = c.Ping(soon)
		require.EqualError(t, err, "zkrecipes: ping "+w.srv.Addr()+": context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.back()
	})
}

func TestPingNamesWhatItCannotWorkWith(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		var none context.Context
		require.EqualError(t, c.Ping(none), "zkrecipes: ping "+w.srv.Addr()+": nil context")
		require.EqualError(t, (*Client)(nil).Ping(t.Context()), `zkrecipes: ping "": nil client`)
		require.EqualError(t, new(Client).Ping(t.Context()), `zkrecipes: ping "": client was not made by Dial`)
		require.NoError(t, c.Close())
		require.EqualError(t, c.Ping(t.Context()), "zkrecipes: ping "+w.srv.Addr()+": client closed")
	})
}
