package zkrecipes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that answer handshakes and never serve, servers that drop every connection,
// and Dialers that do not return.

// exists reports whether a znode of the line exists.
func (w *world) exists(place string) bool {
	return slices.Contains(w.srv.Children(w.path), strings.TrimPrefix(place, w.path+"/"))
}

// requireGivenUp requires that a lease whose session is not served any more, from now
// on, ends after the session timeout, and that its place goes after
// twice the timeout, once the attempt under way has failed.
func (w *world) requireGivenUp(l *Lease) {
	w.t.Helper()
	timeout := l.handle.Grant.Session.Timeout()
	old, place := l.handle.Grant.Session, l.Check().Path
	time.Sleep(timeout)
	require.ErrorIs(w.t, l.Err(), ErrLost, "nobody could have used or released it for as long as the timeout")
	require.True(w.t, w.exists(place), "the session lives on as yet")
	require.ErrorIs(w.t, l.Release(), ErrLost)
	time.Sleep(2 * timeout) // one more for what is under way
	require.True(w.t, old.IsOver())
	require.ErrorIs(w.t, old.Cause(), zk.ErrSessionExpired)
	require.ErrorContains(w.t, old.Cause(), "given up")
	require.False(w.t, w.exists(place))
}

func TestB65SessionWhoseCredentialIsRefusedIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(&Options{
			Auth: []Auth{{Scheme: "digest", Data: []byte("user:password")}}, ACL: zk.WorldACL(zk.PermAll),
		})
		l := held(t, NewMutex(c, w.path).Lock)
		rival := w.lockLater(w.stranger(nil))
		before := w.srv.Counts()
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: "auth", Code: jute.ErrAuthFailed, Times: -1})
		require.True(t, w.srv.Disconnect(sessionID(c)))
		w.requireGivenUp(l)
		require.Less(t, w.srv.Counts().Sub(before).Requests["connect"], 100)
		require.NoError(t, rival.Get().Release())

		_, err := NewMutex(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `refused the credential of scheme "digest"`)
		w.plan.Stop()
		require.NoError(t, held(t, NewMutex(c, w.path).Lock).Release(), "in a new session")
	})
}

func TestB66SessionWhoseWatchesCannotBeArmedAgainIsGivenUp(t *testing.T) {
	for name, fault := range map[string]*zktest.Fault{
		"they exceed the frame limit": nil,
		"they are refused":            {Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1},
		"they are answered too late":  {Do: zktest.Delay, Op: "setWatches", For: 6 * time.Second, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				other := w.client(nil)
				const waiters = 60
				var holding []*Lease
				for i := range waiters {
					holding = append(holding, held(t, NewMutex(other, fmt.Sprint(w.path, i)).Lock))
				}
				c := w.client(nil)
				l := held(t, NewMutex(c, w.path).Lock)
				var waiting []*harness.Call[*Lease]
				for i := range waiters {
					waiting = append(waiting, lockLater(t, NewMutex(c, fmt.Sprint(w.path, i))))
				}
				synctest.Wait()
				rival := w.lockLater(w.stranger(nil))
				if fault != nil {
					w.plan.Add(*fault)
				}
				require.True(t, w.srv.Disconnect(sessionID(c)))
				w.requireGivenUp(l)
				require.NoError(t, rival.Get().Release())
				w.plan.Stop()
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
		})
	}
}

// A session that is served again in time goes on, and its lease with it. What it was
// promised behind the gate counts from then on.
func TestB66SessionThatIsServedAgainInTimeGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		l := held(t, NewMutex(c, w.path).Lock)
		s := l.handle.Grant.Session
		time.Sleep(2 * time.Second) // its place is watched
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
		require.True(t, w.srv.Disconnect(s.ID()))
		time.Sleep(s.Timeout() * 6 / 10)
		require.NoError(t, l.Err())
		w.plan.Stop()
		time.Sleep(s.Timeout() * 5 / 10)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())
		require.False(t, s.IsOver())
	})
}

// flap drops the client's connection whenever it has been up for that long, for a
// minute.
func (w *world) flap(s *line.Session, lasts time.Duration) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !s.IsOver(); {
		time.Sleep(10 * time.Millisecond)
		if up, _ := s.Connected(); up {
			time.Sleep(lasts)
			w.srv.Disconnect(s.ID())
			synctest.Wait()
		}
	}
}

// A lease is believed until ValidUntil. Whatever becomes of the connections, the session
// must not be closed before that.
func TestB66SessionOfAnIdleHolderIsNotGivenUpWhileConnectionsFlap(t *testing.T) {
	for name, opts := range map[string]*Options{"holder": nil, "a credential": {Auth: []Auth{{Scheme: "digest", Data: []byte("user:password")}}}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(opts)
				l := held(t, NewMutex(c, w.path).Lock)
				time.Sleep(2 * time.Second)
				w.flap(l.handle.Grant.Session, 300*time.Millisecond)
				require.False(t, l.handle.Grant.Session.IsOver())
				require.NoError(t, l.Release())
			})
		})
	}
}

// waitsInLine returns a call of Lock that has waited for a while, and its session.
func (w *world) waitsInLine() (*harness.Call[*Lease], *line.Session) {
	w.t.Helper()
	held(w.t, NewMutex(w.stranger(nil), w.path).Lock)
	c := w.stranger(nil)
	waiting := w.lockLater(c)
	s, _ := c.client.Session()
	time.Sleep(3 * time.Second)
	return waiting, s
}

// During an election servers close connections without an answer, for as long as it
// takes. That they had answered before does not count.
func TestB66SessionIsNotGivenUpAfterALongElection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		waiting, s := w.waitsInLine()
		w.srv.Disconnect(s.ID())
		time.Sleep(200 * time.Millisecond)
		up, _ := s.Connected()
		require.True(t, up)
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "connect", Times: -1})
		w.srv.Disconnect(s.ID())
		time.Sleep(21 * time.Second)
		w.plan.Stop()
		time.Sleep(3 * time.Second)
		require.False(t, s.IsOver())
		require.True(t, waiting.Waiting())
	})
}

// A server that was down may serve when it is back, whatever it did before.
func TestB66ServerThatWasDownGetsAnotherChance(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		waiting, s := w.waitsInLine()
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
		w.srv.Disconnect(s.ID())
		time.Sleep(19800 * time.Millisecond)
		w.plan.Stop()
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: -1})
		time.Sleep(4 * time.Second)
		w.plan.Stop()
		time.Sleep(3 * time.Second)
		require.False(t, s.IsOver())
		require.True(t, waiting.Waiting())
	})
}

// One refused connection now and then, by one of the servers behind a name for
// example, is no outage.
func TestB65SessionIsGivenUpThoughSomeConnectionsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(&Options{Auth: []Auth{{Scheme: "digest", Data: []byte("user:password")}}})
		l := held(t, NewMutex(c, w.path).Lock)
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: "auth", Code: jute.ErrAuthFailed, Times: -1})
		w.srv.Disconnect(l.handle.Grant.Session.ID())
		for range 4 {
			w.plan.Add(zktest.Fault{Do: zktest.Refuse})
			time.Sleep(15 * time.Second)
		}
		require.True(t, l.handle.Grant.Session.IsOver())
		require.False(t, w.exists(l.Check().Path))
	})
}

func TestB72ReconnectsBackOffWhereConnectionsDoNotLast(t *testing.T) {
	for name, setUp := range map[string]func(t *testing.T, w *world, c *Client) *harness.Call[*Lease]{
		"a join": func(t *testing.T, w *world, c *Client) *harness.Call[*Lease] {
			w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Times: -1})
			return w.lockLater(c)
		},
		"a waiting Lock": func(t *testing.T, w *world, c *Client) *harness.Call[*Lease] {
			held(t, NewMutex(w.stranger(nil), w.path).Lock)
			a := w.lockLater(c)
			s, _ := c.client.Session()
			go func() { // each connection is lost as soon as requests pass
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if up, _ := s.Connected(); up {
						w.srv.Disconnect(s.ID())
					}
				}
			}()
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(nil)
				a := setUp(t, w, c)
				before := w.srv.Counts()
				time.Sleep(time.Minute)
				require.Less(t, w.srv.Counts().Sub(before).Requests["connect"], 100)
				require.True(t, a.Waiting())
			})
		})
	}
}

func TestB72ReconnectIsPromptOnceAConnectionHasLasted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		for range 100 {
			time.Sleep(c.client.Timeout / 10)
			require.True(t, w.srv.Disconnect(sessionID(c)))
			time.Sleep(21 * time.Millisecond)
			s, _ := c.client.Session()
			up, _ := s.Connected()
			require.True(t, up)
		}
	})
}

// shorten makes connections whose handshakes ask for another session timeout.
func (w *world) shorten(timeout *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := w.srv.DialContext(ctx, network, addr)
		if ms := timeout.Load(); err == nil && ms != 0 {
			nc = &shortened{Conn: nc, ms: uint32(ms)}
		}
		return nc, err
	}
}

type shortened struct {
	net.Conn
	ms   uint32
	done bool
}

func (c *shortened) Write(b []byte) (int, error) {
	if !c.done {
		c.done = true
		binary.BigEndian.PutUint32(b[16:], c.ms) // behind length, version and zxid
	}
	return c.Conn.Write(b)
}

// The first grant makes the client's timer sleep until the clock runs out. What is due
// earlier must wake it.
func TestB68HolderHearsInTimeWhateverTheTimerWaitsFor(t *testing.T) {
	t.Run("a later grant is evicted", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.client(nil)
			l := held(t, NewMutex(c, w.path).Lock)
			time.Sleep(c.client.Timeout / 4)
			require.NoError(t, l.Release())
			l = held(t, NewMutex(c, w.path).Lock)
			ctx := l.Context(t.Context())
			began := time.Now()
			require.NoError(t, w.bare().Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, ctx), ErrLost)
			require.LessOrEqual(t, time.Since(began), c.client.Timeout/10)
		})
	})

	t.Run("a server grants a shorter timeout", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			const long, short = 20 * time.Second, 5 * time.Second
			var timeout atomic.Int64
			c := w.client(&Options{SessionTimeout: long, Dialer: w.shorten(&timeout)})
			l := held(t, NewMutex(c, w.path).Lock)
			time.Sleep(3 * time.Second)
			rival := w.lockLater(w.stranger(nil))
			ctx := l.Context(t.Context())
			timeout.Store(short.Milliseconds())
			require.True(t, w.srv.Disconnect(sessionID(c)))
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, short, l.handle.Grant.Session.Timeout())
			w.away(c)
			began := time.Now()
			require.ErrorIs(t, harness.Cause(t, ctx), ErrLost)
			require.LessOrEqual(t, time.Since(began), short)
			require.True(t, rival.Waiting())
			require.NoError(t, rival.Get().Release())
		})
	})

	t.Run("a server that grants a shorter timeout does not answer the credentials", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			const long, short = 20 * time.Second, 5 * time.Second
			var timeout atomic.Int64
			c := w.client(&Options{SessionTimeout: long, Dialer: w.shorten(&timeout)})
			l := held(t, NewMutex(c, w.path).Lock)
			time.Sleep(3 * time.Second)
			rival := w.lockLater(w.stranger(nil))
			timeout.Store(short.Milliseconds())
			w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "auth"}, zktest.Fault{Do: zktest.Refuse, Skip: 1, Times: -1})
			require.True(t, w.srv.Disconnect(sessionID(c)))
			require.NoError(t, rival.Get().Err())
			require.ErrorIs(t, l.Err(), ErrLost)
		})
	})

	t.Run("a server that grants a shorter timeout does not serve", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			const long, short = 20 * time.Second, 5 * time.Second
			var timeout atomic.Int64
			c := w.client(&Options{SessionTimeout: long, Dialer: w.shorten(&timeout)})
			l := held(t, NewMutex(c, w.path).Lock)
			time.Sleep(3 * time.Second)
			ctx := l.Context(t.Context())
			timeout.Store(short.Milliseconds())
			w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "setWatches"}, zktest.Fault{Do: zktest.Refuse, Skip: 1, Times: -1})
			began := time.Now()
			require.True(t, w.srv.Disconnect(sessionID(c)))
			require.ErrorIs(t, harness.Cause(t, ctx), ErrLost)
			require.LessOrEqual(t, time.Since(began), short+100*time.Millisecond)
		})
	})
}

// deafened is a connection that drops what the client writes, once it is deaf.
type deafened struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafened) Write(b []byte) (int, error) {
	if c.deaf.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Events pass, and requests do not. A place that is granted late must not be believed for
// longer than the session.
func TestB68ContextOfALateGrantEndsWithTheSessionsClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		holder := held(t, NewMutex(w.client(nil), w.path).Lock)
		other := w.bare()
		_, err := other.Create("/x", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		var deaf atomic.Bool
		c := w.stranger(&Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := w.srv.DialContext(ctx, network, addr)
			return deafened{nc, &deaf}, err
		}})
		waiting := w.lockLater(c)
		s, _ := c.client.Session()
		watchOn(t, s, "/x")
		synctest.Wait()
		deaf.Store(true)
		until, timeout := s.ValidUntil(), s.Timeout()
		time.Sleep(time.Until(until) - timeout*55/100)
		_, err = other.Set("/x", nil, -1) // keeps the watchdog quiet
		require.NoError(t, err)
		time.Sleep(time.Until(until) - timeout*7/100)
		require.NoError(t, holder.Release())
		ctx := waiting.Get().Context(t.Context())
		require.Equal(t, until, s.ValidUntil())
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, harness.Cause(t, ctx), ErrLost)
		require.False(t, time.Now().After(until))
		deaf.Store(false)
	})
}

func TestB76DialerThatIgnoresItsContextHoldsNobodyUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var hangs atomic.Bool
		var calls, open atomic.Int32
		release := make(chan struct{})
		dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := w.srv.DialContext(ctx, network, addr)
			if hangs.Load() {
				calls.Add(1)
				<-release
			}
			open.Add(1)
			return &counted{Conn: nc, open: &open}, err
		}
		c := w.client(&Options{Dialer: dialer})
		l := held(t, NewMutex(c, w.path).Lock)
		hangs.Store(true)
		require.True(t, w.srv.Disconnect(sessionID(c)))
		time.Sleep(2 * c.client.Timeout)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.LessOrEqual(t, calls.Load(), int32(2), "the next attempts wait for the same call")
		_, err := NewMutex(c, w.path).Lock(harness.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the dialer has not returned")
		began := time.Now()
		require.Error(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)

		_, err = Dial(harness.Within(t, time.Second), []string{w.srv.Addr()}, &Options{Dialer: dialer})
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

func TestB76CallThatNeverReturnsIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var hangs atomic.Int32
		var calls atomic.Int32
		release := make(chan struct{})
		c := w.client(&Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if calls.Add(1); hangs.Add(-1) >= 0 {
				<-release
				return nil, errors.New("late")
			}
			return w.srv.DialContext(ctx, network, addr)
		}})
		hangs.Store(2)
		w.srv.Disconnect(sessionID(c))
		time.Sleep(4 * c.client.Timeout)
		require.NoError(t, NewMutex(c, w.path).Do(harness.Within(t, time.Second), nothing))

		hangs.Store(1000)
		calls.Store(0)
		w.srv.Disconnect(sessionID(c))
		time.Sleep(time.Hour)
		require.LessOrEqual(t, calls.Load(), int32(4), "their number is bounded")
		close(release)
	})
}

// One of two servers hangs, and the other one loses its connections.
func TestB76CallsThatHangAreBoundedThoughConnectionsAreMade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var hanging atomic.Int32
		release := make(chan struct{})
		c, err := Dial(t.Context(), []string{w.srv.Addr(), "hangs.test"}, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == w.srv.Addr() {
				return w.srv.DialContext(ctx, network, addr)
			}
			hanging.Add(1)
			defer hanging.Add(-1)
			<-release
			return nil, errors.New("late")
		}})
		require.NoError(t, err)
		for range 20 {
			time.Sleep(5 * time.Second)
			w.srv.Disconnect(sessionID(c))
			time.Sleep(15 * time.Second)
		}
		require.LessOrEqual(t, hanging.Load(), int32(4))
		close(release)
		c.Close()
	})
}

// A connection that came too late is not kept beside the one that is used.
func TestB76LateConnectionIsClosedOnceAnotherIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var open atomic.Int32
		c, err := Dial(t.Context(), serverNames(2), &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == serverNames(1)[0] {
				time.Sleep(5 * time.Second)
			}
			nc, err := w.srv.DialContext(context.WithoutCancel(ctx), network, addr)
			open.Add(1)
			return &counted{Conn: nc, open: &open}, err
		}})
		require.NoError(t, err)
		for range 6 { // the order of the servers is random
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 1, open.Load())
			w.srv.Disconnect(sessionID(c))
		}
		c.Close()
		time.Sleep(time.Minute)
		require.Zero(t, open.Load())
	})
}

func TestB76ConnectionThatComesLateIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(5 * time.Second) // the budget of an attempt is 1.67 s
			return w.srv.DialContext(context.WithoutCancel(ctx), network, addr)
		}})
		require.NoError(t, NewMutex(c, w.path).Do(t.Context(), nothing))
	})
}

func TestB76DialerWithoutAConnectionIsAnError(t *testing.T) {
	_, err := Dial(harness.Within(t, 100*time.Millisecond), harness.Servers(), &Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	})
	require.ErrorContains(t, err, "the dialer has returned no connection")
}

// Every call that waits for a connection says so, and why there is none.
func TestB73DeadlineWhileDisconnectedTellsWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		held(t, NewMutex(w.stranger(nil), w.path).Lock)
		q := NewQueue(c, "/queue", nil)
		_, err := q.Put(t.Context(), []byte("item"))
		require.NoError(t, err)
		calls := map[string]func(context.Context) error{
			"Lock":         func(ctx context.Context) error { _, err := NewMutex(c, "/free").Lock(ctx); return err },
			"waiting Lock": func(ctx context.Context) error { _, err := NewMutex(c, w.path).Lock(ctx); return err },
			"TryLock":      func(ctx context.Context) error { _, err := NewMutex(c, w.path).TryLock(ctx); return err },
			"Contenders":   func(ctx context.Context) error { _, err := NewMutex(c, w.path).Contenders(ctx); return err },
			"Put":          func(ctx context.Context) error { _, err := q.Put(ctx, []byte("item")); return err },
			"Take":         func(ctx context.Context) error { _, err := q.Take(ctx); return err },
			"Barrier":      func(ctx context.Context) error { _, err := NewBarrier(c, "/barrier", 2).Wait(ctx); return err },
			"Enter":        func(ctx context.Context) error { _, err := NewDoubleBarrier(c, "/double", 2).Enter(ctx); return err },
			"Gate":         func(ctx context.Context) error { return NewGate(c, "/gate").Wait(ctx) },
		}
		w.away(c)
		for name, call := range calls {
			err := call(harness.Within(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorContains(t, err, "no connection: ", name)
			require.ErrorContains(t, err, w.srv.Addr(), name)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = NewMutex(c, w.path).Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "why there is no connection is not why the call has ended")
		w.back()
		time.Sleep(c.client.Timeout)
		_, err = NewMutex(c, w.path).Lock(harness.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "no connection")
	})
}
