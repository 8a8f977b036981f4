package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that answer handshakes and never serve, servers that drop every connection,
// and Dialers that do not return.

func TestSessionWhoseCredentialIsRefusedIsGivenUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		c := w.Client(&zkrecipes.Options{
			Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}, ACL: zk.WorldACL(zk.PermAll), Logger: log.Logger(),
		})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		rival := w.LockLater(w.Stranger(nil))
		before := w.Srv.Counts()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "auth", Code: jute.ErrAuthFailed, Times: -1})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		w.RequireGivenUp(l, &log)
		require.Less(t, w.Srv.Counts().Sub(before).Requests["connect"], 100)
		require.NoError(t, rival.Get().Release())

		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `refused the credential of scheme "digest"`)
		w.Plan.Stop()
		require.NoError(t, recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock).Release(), "in a new session")
	})
}

func TestSessionWhoseWatchesCannotBeArmedAgainIsGivenUp(t *testing.T) {
	recipetest.EachInBubble(t, map[string]*zktest.Fault{
		"they exceed the frame limit": nil,
		"they are refused":            {Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1},
		"they are answered too late":  {Do: zktest.Delay, Op: "setWatches", For: 6 * time.Second, Times: -1},
	}, func(t *testing.T, w *recipetest.World, fault *zktest.Fault) {
		other := w.Client(nil)
		const waiters = 100
		var holding []*zkrecipes.Lease
		for i := range waiters {
			holding = append(holding, recipetest.Held(t, zkrecipes.NewMutex(other, fmt.Sprint(w.Path, i)).Lock))
		}
		var log recipetest.Warnings
		c := w.Client(&zkrecipes.Options{Logger: log.Logger()})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		var waiting []*harness.Call[*zkrecipes.Lease]
		for i := range waiters {
			waiting = append(waiting, recipetest.LockLater(t, zkrecipes.NewMutex(c, fmt.Sprint(w.Path, i))))
		}
		synctest.Wait()
		rival := w.LockLater(w.Stranger(nil))
		if fault != nil {
			w.Plan.Add(*fault)
		}
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		w.RequireGivenUp(l, &log)
		require.NoError(t, rival.Get().Release())
		w.Plan.Stop()
		for _, a := range waiting {
			require.True(t, a.Waiting(), "it goes on in the next session")
		}
		for _, l := range holding {
			require.NoError(t, l.Release())
		}
		for _, a := range waiting {
			require.NoError(t, a.Get().Release())
		}
	}, zktest.MaxFrame(4<<10))
}

// A session that is served again in time goes on, and its lease with it. What it was
// promised behind the gate counts from then on.
func TestSessionThatIsServedAgainInTimeGoesOn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		id := recipetest.SessionID(c)
		time.Sleep(2 * time.Second) // its place is watched
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
		require.True(t, w.Srv.Disconnect(id))
		time.Sleep(recipetest.DefaultSessionTimeout * 6 / 10)
		require.NoError(t, l.Err())
		w.Plan.Stop()
		time.Sleep(recipetest.DefaultSessionTimeout * 5 / 10)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())
		require.Equal(t, id, recipetest.SessionID(c))
	})
}

// A lease is believed until ValidUntil. Whatever becomes of the connections, the session
// must not be closed before that.
func TestSessionOfAnIdleHolderIsNotGivenUpWhileConnectionsFlap(t *testing.T) {
	recipetest.EachInBubble(t, map[string]*zkrecipes.Options{"holder": nil, "a credential": {Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}}}, func(t *testing.T, w *recipetest.World, opts *zkrecipes.Options) {
		c := w.Client(opts)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		time.Sleep(2 * time.Second)
		w.Flap(c, 300*time.Millisecond)
		require.NoError(t, l.Release())
	})
}

// During an election servers close connections without an answer, for as long as it
// takes. That they had answered before does not count. A server that was down may serve
// when it is back, whatever it did before.
func TestSessionIsNotGivenUpWhereServersMayServeAgain(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World, id int64){
		"a long election": func(w *recipetest.World, id int64) {
			w.Srv.Disconnect(id)
			time.Sleep(200 * time.Millisecond) // it connects
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "connect", Times: -1})
			w.Srv.Disconnect(id)
			time.Sleep(21 * time.Second)
		},
		"a server that was down": func(w *recipetest.World, id int64) {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
			w.Srv.Disconnect(id)
			time.Sleep(19800 * time.Millisecond)
			w.Plan.Stop()
			w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
			time.Sleep(4 * time.Second)
		},
		// Another server behind the same address, for example, which does not serve yet.
		"a long election, and another handshake without an answer": func(w *recipetest.World, id int64) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "connect", Times: -1})
			w.Srv.Disconnect(id)
			time.Sleep(21 * time.Second)
			w.Plan.Stop()
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "connect", Skip: 1})
			time.Sleep(4 * time.Second)
		},
	}, func(t *testing.T, w *recipetest.World, outage func(w *recipetest.World, id int64)) {
		waiting, c := w.WaitsInLine()
		id := recipetest.SessionID(c)
		outage(w, id)
		w.Plan.Stop()
		time.Sleep(3 * time.Second)
		require.Equal(t, id, recipetest.SessionID(c))
		require.True(t, waiting.Waiting())
	})
}

// The server is seen once in more than a session timeout then.
func TestSessionIsGivenUpAtAServerThatIsBehindItThoughManyAddressesDoNotAnswer(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var on atomic.Bool
		on.Store(true)
		n := newNetwork(w, map[string][]string{"zk.example": nil})
		for i := range 8 {
			addr := fmt.Sprint("10.0.0.", i)
			n.names["zk.example"] = append(n.names["zk.example"], addr)
			n.become(w.Ahead(&on), addr+":2181")
		}
		c := n.client("zk.example")
		recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		id := recipetest.SessionID(c)
		on.Store(false)
		for i := range 7 {
			n.become(drops, fmt.Sprintf("10.0.0.%d:2181", i+1))
		}
		time.Sleep(2 * time.Minute)
		require.NotEqual(t, id, recipetest.SessionID(c))
		recipetest.RequireUsable(t, c)
	})
}

// A server that is seen once in more than twice the session timeout has closed one connection only.
func TestSessionIsNotGivenUpForOneConnectionHoweverLongAgo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		n := newNetwork(w, map[string][]string{"zk.example": nil})
		for i := range 16 {
			addr := fmt.Sprint("10.0.0.", i)
			n.names["zk.example"] = append(n.names["zk.example"], addr)
			n.become(w.Srv.DialContext, addr+":2181")
		}
		c := n.client("zk.example")
		recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		id := recipetest.SessionID(c)
		time.Sleep(2 * time.Second) // its place is watched
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1})
		for i := range 15 {
			n.become(drops, fmt.Sprintf("10.0.0.%d:2181", i+1))
		}
		w.Srv.Disconnect(id)
		for range 24 {
			time.Sleep(5 * time.Second)
			if recipetest.SessionID(c) == id && !c.Status().Connected {
				w.Srv.Restore(w.Srv.Snapshot()) // nothing expires without a leader
			}
		}
		require.Equal(t, id, recipetest.SessionID(c))
	})
}

// One refused connection now and then, by one of the servers behind a name for
// example, is no outage.
func TestSessionIsGivenUpThoughSomeConnectionsAreRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "auth", Code: jute.ErrAuthFailed, Times: -1})
		s := c.Status().Session
		w.Srv.Disconnect(s)
		for range 4 {
			w.Plan.Add(zktest.Fault{Do: zktest.Refuse})
			time.Sleep(15 * time.Second)
		}
		require.NotEqual(t, s, c.Status().Session)
		require.False(t, w.Has(l.Check().Path))
	})
}

func TestReconnectsBackOffWhereConnectionsDoNotLast(t *testing.T) {
	for name, setUp := range map[string]func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease]{
		"a join": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Times: -1})
			return w.LockLater(c)
		},
		"a waiting Lock": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) *harness.Call[*zkrecipes.Lease] {
			recipetest.Held(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Lock)
			a := w.LockLater(c)
			go func() { // each connection is lost as soon as requests pass
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if c.Status().Connected {
						w.Srv.Disconnect(recipetest.SessionID(c))
					}
				}
			}()
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Client(nil)
				a := setUp(t, w, c)
				before := w.Srv.Counts()
				time.Sleep(time.Minute)
				require.Less(t, w.Srv.Counts().Sub(before).Requests["connect"], 100)
				require.True(t, a.Waiting())
			})
		})
	}
}

func TestReconnectIsPromptOnceAConnectionHasLasted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		for range 100 {
			time.Sleep(recipetest.DefaultSessionTimeout / 10)
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
			time.Sleep(21 * time.Millisecond)
			require.True(t, c.Status().Connected)
		}
	})
}

// The first grant makes the client's timer sleep until the clock runs out. What is due
// earlier must wake it.
func TestHolderHearsInTimeWhateverTheTimerWaitsFor(t *testing.T) {
	t.Run("a later grant is evicted", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Client(nil)
			l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
			time.Sleep(recipetest.DefaultSessionTimeout / 4)
			require.NoError(t, l.Release())
			l = recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
			ctx := l.Context(t.Context())
			began := time.Now()
			require.NoError(t, w.Bare().Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, ctx), zkrecipes.ErrLost)
			require.LessOrEqual(t, time.Since(began), recipetest.DefaultSessionTimeout/10)
		})
	})

	for name, test := range map[string]struct {
		faults []zktest.Fault // once the server grants the shorter timeout
		within time.Duration  // the holder's context ends
	}{
		"a server grants a shorter timeout": {nil, 5100 * time.Millisecond},
		"a server that grants a shorter timeout does not answer the credentials": {
			[]zktest.Fault{{Do: zktest.Drop, Op: "auth"}, {Do: zktest.Refuse, Skip: 1, Times: -1}}, 5 * time.Second,
		},
		"a server that grants a shorter timeout does not serve": {
			[]zktest.Fault{{Do: zktest.Withhold, Op: "setWatches"}, {Do: zktest.Refuse, Skip: 1, Times: -1}}, 5100 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var timeout atomic.Int64
				c := w.Client(&zkrecipes.Options{
					SessionTimeout: 20 * time.Second, Dialer: w.Shorten(&timeout),
					Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}, ACL: zk.WorldACL(zk.PermAll),
				})
				l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
				time.Sleep(3 * time.Second)
				rival := w.LockLater(w.Stranger(nil))
				ctx := l.Context(t.Context())
				timeout.Store(5000)
				w.Plan.Add(test.faults...)
				began := time.Now()
				require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
				if test.faults == nil {
					time.Sleep(100 * time.Millisecond)
					require.Equal(t, 5*time.Second, c.Status().Timeout)
					w.Away(c)
				}
				require.ErrorIs(t, harness.Cause(t, ctx), zkrecipes.ErrLost)
				require.LessOrEqual(t, time.Since(began), test.within)
				require.True(t, rival.Waiting())
				require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
				require.NoError(t, rival.Get().Release())
			})
		})
	}
}

// Events pass, and requests do not. A place that is granted late must not be believed for
// longer than the session.
func TestContextOfALateGrantEndsWithTheSessionsClock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		holder := recipetest.Held(t, zkrecipes.NewMutex(w.Client(nil), w.Path).Lock)
		other := w.Bare()
		_, err := other.Create("/x", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		var deaf atomic.Bool
		var session zkrecipes.TraceSession
		taps := harness.NewTapsVia(w.Srv.DialContext)
		taps.OnWrite(func(*harness.Tap, string, []byte) (bool, error) { return deaf.Load(), nil })
		c := w.Stranger(&zkrecipes.Options{Dialer: taps.Dial, Trace: &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) {
			if e.State == zkrecipes.SessionConnected {
				session = e
			}
		}}})
		waiting := w.LockLater(c)
		recipetest.WatchesAt(t, c, "/x")
		deaf.Store(true)
		until, timeout := session.ValidUntil(), session.Timeout
		time.Sleep(time.Until(until) - timeout*55/100)
		_, err = other.Set("/x", nil, -1) // keeps the watchdog quiet
		require.NoError(t, err)
		time.Sleep(time.Until(until) - timeout*7/100)
		require.NoError(t, holder.Release())
		ctx := waiting.Get().Context(t.Context())
		require.Equal(t, until, session.ValidUntil())
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, harness.Cause(t, ctx), zkrecipes.ErrLost)
		require.False(t, time.Now().After(until))
		deaf.Store(false)
	})
}

func TestDialerThatIgnoresItsContextHoldsNobodyUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var hangs atomic.Bool
		var calls, open atomic.Int32
		release := make(chan struct{})
		dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := w.Srv.DialContext(ctx, network, addr)
			if hangs.Load() {
				calls.Add(1)
				<-release
			}
			open.Add(1)
			return &counted{Conn: nc, open: &open}, err
		}
		c := w.Client(&zkrecipes.Options{Dialer: dialer})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		hangs.Store(true)
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		time.Sleep(2 * recipetest.DefaultSessionTimeout)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		require.LessOrEqual(t, calls.Load(), int32(2), "the next attempts wait for the same call")
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the dialer has not returned")
		began := time.Now()
		require.Error(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)

		_, err = zkrecipes.Dial(harness.Within(t, time.Second), []string{w.Srv.Addr()}, &zkrecipes.Options{Dialer: dialer})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(release)
		synctest.Wait()
		require.Zero(t, open.Load(), "the connections that came too late are closed")
	})
}

// counted counts the open connections.
type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func TestDialerCallThatNeverReturnsIsReplaced(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var hangs atomic.Int32
		var calls atomic.Int32
		release := make(chan struct{})
		c := w.Client(&zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if calls.Add(1); hangs.Add(-1) >= 0 {
				<-release
				return nil, errors.New("late")
			}
			return w.Srv.DialContext(ctx, network, addr)
		}})
		hangs.Store(2)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(4 * recipetest.DefaultSessionTimeout)
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(harness.Within(t, time.Second), recipetest.Nothing))

		hangs.Store(1000)
		calls.Store(0)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(time.Hour)
		require.LessOrEqual(t, calls.Load(), int32(4), "their number is bounded")
		close(release)
	})
}

// One of two servers hangs, and the other one loses its connections.
func TestDialerCallsThatHangAreBoundedThoughConnectionsAreMade(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var hanging atomic.Int32
		release := make(chan struct{})
		c, err := zkrecipes.Dial(t.Context(), []string{w.Srv.Addr(), "hangs.test"}, &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == w.Srv.Addr() {
				return w.Srv.DialContext(ctx, network, addr)
			}
			hanging.Add(1)
			defer hanging.Add(-1)
			<-release
			return nil, errors.New("late")
		}})
		require.NoError(t, err)
		for range 20 {
			time.Sleep(5 * time.Second)
			w.Srv.Disconnect(recipetest.SessionID(c))
			time.Sleep(15 * time.Second)
		}
		require.LessOrEqual(t, hanging.Load(), int32(4))
		close(release)
		c.Close()
	})
}

// A connection that came too late is not kept beside the one that is used.
func TestLateConnectionIsClosedOnceAnotherIsMade(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var open atomic.Int32
		c, err := zkrecipes.Dial(t.Context(), recipetest.ServerNames(2), &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == recipetest.ServerNames(1)[0] {
				time.Sleep(5 * time.Second)
			}
			nc, err := w.Srv.DialContext(context.WithoutCancel(ctx), network, addr)
			open.Add(1)
			return &counted{Conn: nc, open: &open}, err
		}})
		require.NoError(t, err)
		for range 6 { // the order of the servers is random
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 1, open.Load())
			w.Srv.Disconnect(recipetest.SessionID(c))
		}
		c.Close()
		time.Sleep(time.Minute)
		require.Zero(t, open.Load())
	})
}

func TestConnectionThatComesLateIsUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(5 * time.Second) // the budget of an attempt is 1.67 s
			return w.Srv.DialContext(context.WithoutCancel(ctx), network, addr)
		}})
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing))
	})
}

// Every call that waits for a connection says so, and why there is none.
func TestDeadlineWhileDisconnectedTellsWhy(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		recipetest.Held(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Lock)
		q := zkrecipes.NewQueue(c, "/queue", nil)
		_, err := q.Put(t.Context(), []byte("item"))
		require.NoError(t, err)
		calls := map[string]func(context.Context) error{
			"Lock":         func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, "/free").Lock(ctx); return err },
			"waiting Lock": func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, w.Path).Lock(ctx); return err },
			"TryLock":      func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, w.Path).TryLock(ctx); return err },
			"Contenders":   func(ctx context.Context) error { _, err := zkrecipes.NewMutex(c, w.Path).Contenders(ctx); return err },
			"Put":          func(ctx context.Context) error { _, err := q.Put(ctx, []byte("item")); return err },
			"Take":         func(ctx context.Context) error { _, err := q.Take(ctx); return err },
			"Barrier": func(ctx context.Context) error {
				_, err := zkrecipes.NewBarrier(c, "/barrier", 2).Wait(ctx)
				return err
			},
			"Enter": func(ctx context.Context) error {
				_, err := zkrecipes.NewDoubleBarrier(c, "/double", 2).Enter(ctx)
				return err
			},
			"Gate": func(ctx context.Context) error { return zkrecipes.NewGate(c, "/gate").Wait(ctx) },
		}
		w.Away(c)
		for name, call := range calls {
			err := call(harness.Within(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorContains(t, err, "no connection: ", name)
			require.ErrorContains(t, err, w.Srv.Addr(), name)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = zkrecipes.NewMutex(c, w.Path).Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "why there is no connection is not why the call has ended")
		w.Back()
		time.Sleep(recipetest.DefaultSessionTimeout)
		_, err = zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "no connection")
	})
}
