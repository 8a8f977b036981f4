package zkrecipes_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Close in each state of the connection, and at awkward moments. A goroutine that it left
// behind would keep the bubble from ending.

// closes closes a client, requires that this takes no longer than that, and returns its error.
func closes(t *testing.T, c *zkrecipes.Client, atMost time.Duration) error {
	t.Helper()
	began := time.Now()
	err := c.Close()
	require.LessOrEqual(t, time.Since(began), atMost)
	return err
}

func TestCloseTakesNoTimeWhateverTheStateOfTheConnection(t *testing.T) {
	type state func(w *recipetest.World, s *session.Session, hole *atomic.Bool)
	withheld := func(op string) state {
		return func(w *recipetest.World, s *session.Session, _ *atomic.Bool) {
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: op, Times: -1})
			w.Srv.Disconnect(s.ID())
			time.Sleep(time.Second)
			require.NotEmpty(w.T, w.Plan.Fired())
		}
	}
	blackHole := func(w *recipetest.World, s *session.Session, hole *atomic.Bool) {
		hole.Store(true)
		w.Srv.Disconnect(s.ID())
		time.Sleep(time.Second)
	}
	reading := func(in state) state {
		return func(w *recipetest.World, s *session.Session, hole *atomic.Bool) {
			in(w, s, hole)
			recipetest.StartReaders(w.T, s, 40)
			synctest.Wait()
		}
	}
	recipetest.EachInBubble(t, map[string]state{
		"disconnected": func(w *recipetest.World, s *session.Session, _ *atomic.Bool) {
			w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
			w.Srv.Disconnect(s.ID())
			synctest.Wait()
		},
		"dialling a black hole":                    blackHole,
		"handshake not answered":                   withheld("connect"),
		"credentials not answered":                 withheld("auth"),
		"re-arming watches":                        withheld("setWatches"),
		"requests that wait for a connection":      reading(blackHole),
		"requests that wait while watches are set": reading(withheld("setWatches")),
	}, func(t *testing.T, w *recipetest.World, lose state) {
		var hole atomic.Bool
		c := w.Stranger(&zkrecipes.Options{
			Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hole.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return w.Srv.DialContext(ctx, network, addr)
			},
		})
		s, _ := c.Core().Session()
		recipetest.WatchOn(t, s, "/zookeeper")
		lose(w, s, &hole)
		err := closes(t, c, recipetest.PromptClose)
		require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		require.ErrorContains(t, err, "left to time out")
		require.Equal(t, err, c.Close(), "a second Close does nothing")
		w.Back()
	})
}

// If the client has not noticed yet that the connection is lost, go-zookeeper may queue its
// closeSession request and never answer it. Its Close waits a second for that answer.
func TestCloseRightAfterTheConnectionWasLostIsBounded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		w.Srv.Disconnect(recipetest.SessionID(c))
		require.ErrorIs(t, closes(t, c, 3*time.Second), zkrecipes.ErrSessionNotClosed)
		w.Back()
	})
}

// go-zookeeper's Close waits for a second.
func TestCloseWaitsForAServerThatTakesItsTime(t *testing.T) {
	const quarter = recipetest.DefaultSessionTimeout / 4
	for _, c := range []struct{ answers, takes time.Duration }{
		{quarter - time.Second/10, quarter - time.Second/10}, {quarter + time.Second/10, quarter},
	} {
		for _, after := range []bool{false, true} {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				client := w.Client(nil)
				recipetest.LockOn(t, zkrecipes.NewMutex(client, w.Path))
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "closeSession", After: after, For: c.answers})
				began := time.Now()
				err := client.Close()
				require.Equal(t, c.takes, time.Since(began))
				require.Equal(t, c.takes < c.answers, errors.Is(err, zkrecipes.ErrSessionNotClosed), err)
				if err == nil {
					require.Empty(t, w.Srv.Sessions())
					require.Empty(t, w.Line())
					require.NoError(t, closes(t, client, 0), "again")
				}
			})
		}
	}
	require.NoError(t, (*zkrecipes.Client)(nil).Close())
	require.NoError(t, new(zkrecipes.Client).Close(), "it was never dialed")
}

func TestCloseOnASilentServerTakesAtMostHalfTheTimeoutAndThreeSeconds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		s, _ := c.Core().Session()
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Times: -1})
		for range 5 {
			c.Core().Tasks.Start(func() { recipetest.ReadOnce(s, "/") })
		}
		require.Error(t, closes(t, c, s.Timeout()/2+3*time.Second))
		require.ErrorIs(t, l.Err(), zkrecipes.ErrClosed)
		w.Back()
	})
}
