package hold_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Reads and commits under a lease, and how its loss is reported. Its contexts are in
// context_test.go.

// A Commit whose reply is lost
func TestACommitWithoutAReplyIsUncertain(t *testing.T) {
	enough := errors.New("enough")
	for name, tt := range map[string]struct {
		fault  zktest.Fault
		cancel error // with which the commit is cancelled, nil: it is not
		want   error
	}{
		"connection lost before":   {zktest.Fault{Do: zktest.Drop}, nil, zk.ErrConnectionClosed},
		"connection lost after":    {zktest.Fault{Do: zktest.Drop, After: true}, nil, zk.ErrConnectionClosed},
		"server is busy before":    {zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled}, nil, zkrecipes.ErrUncertain},
		"server is busy after":     {zktest.Fault{Do: zktest.Answer, Code: jute.ErrOperationTimeout, After: true}, nil, zkrecipes.ErrUncertain},
		"cancelled before":         {zktest.Fault{Do: zktest.Delay, For: time.Second}, enough, enough},
		"cancelled after":          {zktest.Fault{Do: zktest.Delay, For: time.Second, After: true}, enough, enough},
		"cancelled with ErrClosed": {zktest.Fault{Do: zktest.Delay, For: time.Second}, zkrecipes.ErrClosed, zkrecipes.ErrClosed}, // as if the Client had been closed
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
				tt.fault.Op = "multi(check,create)"
				w.Plan.Add(tt.fault)
				commit := harness.GoErr(t, func(ctx context.Context) error {
					_, err := l.Commit(ctx, zkrecipes.OpCreate("/data", make([]byte, 1<<20-1000), 0, nil))
					return err
				})
				synctest.Wait()
				if tt.cancel != nil {
					commit.Cancel(tt.cancel)
					synctest.Wait()
					require.False(t, commit.Waiting(), "it returns at once")
				}
				_, err := commit.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrUncertain, "it is not sent again")
				require.ErrorIs(t, err, tt.want)
				if tt.cancel != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
				w.Stands(l)
				_, stat, err := l.Get(t.Context(), "/data")
				if tt.fault.Do != zktest.Delay && !tt.fault.After {
					require.ErrorIs(t, err, zk.ErrNoNode)
					return
				}
				require.NoError(t, err, "it was carried out, before the read that follows it")
				require.Zero(t, stat.Version)
			})
		})
	}
}

func TestACommitWithAContextThatHasEndedSendsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.Requests(func() {
			_, err := l.Commit(ctx, zkrecipes.OpSet("/x", nil, 0))
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		}))
	})
}

func TestCommitsReportSuccessOnlyIfApplied(t *testing.T) {
	type row struct {
		hold func(w *recipetest.World, c *zkrecipes.Client) *zkrecipes.Lease
		meet func(raw *zk.Conn, l *zkrecipes.Lease) error
		end  error // of the lease and its commits
	}
	recipetest.EachInBubble(t, map[string]row{
		"evicted": {func(w *recipetest.World, c *zkrecipes.Client) *zkrecipes.Lease {
			l := recipetest.LockOn(w.T, zkrecipes.NewMutex(c, "/m"))
			time.Sleep(2 * time.Second) // its place is watched by now, so that the eviction is noticed at once
			return l
		}, func(raw *zk.Conn, l *zkrecipes.Lease) error { return raw.Delete(l.Check().Path, -1) }, zkrecipes.ErrLost},
		"downgraded": {
			func(w *recipetest.World, c *zkrecipes.Client) *zkrecipes.Lease {
				return recipetest.Held(w.T, zkrecipes.NewRWLock(c, w.Path).Lock)
			},
			func(_ *zk.Conn, l *zkrecipes.Lease) error { return l.Downgrade(context.Background()) }, nil,
		},
	}, func(t *testing.T, w *recipetest.World, row row) {
		c, raw := w.Stranger(nil), w.Bare()
		_, err := raw.Create("/data", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Millisecond, Times: -1})
		for i := range 15 {
			l := row.hold(w, c)
			_, before, err := raw.Get("/data")
			require.NoError(t, err)
			var met atomic.Bool
			var committed atomic.Int32
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for row.end != nil || !met.Load() {
						if _, err := l.Commit(t.Context(), zkrecipes.OpSet("/data", nil, -1)); err != nil {
							if !errors.Is(err, row.end) {
								t.Error(err)
							}
							return
						}
						committed.Add(1)
					}
				})
			}
			time.Sleep(20*time.Millisecond + time.Duration(i)*100*time.Microsecond)
			require.NoError(t, row.meet(raw, l))
			time.Sleep(20 * time.Millisecond)
			met.Store(true)
			wg.Wait()
			require.ErrorIs(t, l.Err(), row.end)
			_, after, err := raw.Get("/data")
			require.NoError(t, err)
			require.Positive(t, committed.Load())
			require.EqualValues(t, after.Version-before.Version, committed.Load())
			require.ErrorIs(t, l.Release(), row.end)
		}
	})
}

// Commit neither fails nor sends the request again and again.
func TestACommitWaitsForAConnectionThatIsSlowToClose(t *testing.T) {
	closing, free, once := make(chan struct{}), make(chan struct{}), new(sync.Once)
	var newest net.Conn
	core := recipetest.NewCore(t, harness.Servers(), func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		newest = nc
		return &recipetest.Lingering{Conn: nc, Closing: closing, Free: free, Once: once}, err
	})
	h := recipetest.Grab(t, core.MutexLine(harness.NewPath(t)).Acquire, layout.KindLock)
	newest.Close()
	<-closing
	waits := make(chan struct{}) // closed when Commit has nothing left to do but to wait
	ctx := recipetest.Hooked{Context: harness.Within(t, 2*time.Minute), F: sync.OnceFunc(func() { close(waits) })}
	done := make(chan error, 1)
	go func() {
		_, err := h.Commit(ctx, nil)
		done <- err
	}()
	<-waits
	tx, err := core.S.Start(h.Grant.Guard()...)
	require.NoError(t, err)
	require.Empty(t, done)
	select {
	case <-tx.Done():
		t.Error("the transaction has ended before the connection is closed")
	default:
	}
	close(free)
	require.NoError(t, <-done)
	require.NoError(t, h.Release())
}

func TestReadsAnsweredAfterTheEndOfTheLeaseReturnItsError(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease)
		want error
	}{
		"released": {func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) { go l.Release() }, zkrecipes.ErrReleased},
		"evicted": {func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) {
			require.NoError(w.T, w.Bare().Delete(l.Check().Path, -1))
		}, zkrecipes.ErrLost},
		"session expired": {func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) {
			w.Srv.Expire(recipetest.SessionID(c))
		}, zkrecipes.ErrLost},
		"client closed": {func(w *recipetest.World, c *zkrecipes.Client, l *zkrecipes.Lease) { go c.Close() }, zkrecipes.ErrClosed},
	} {
		for op, read := range map[string]func(context.Context, *zkrecipes.Lease) (any, *zk.Stat, error){
			"getData":      func(ctx context.Context, l *zkrecipes.Lease) (any, *zk.Stat, error) { return l.Get(ctx, "/data") },
			"getChildren2": func(ctx context.Context, l *zkrecipes.Lease) (any, *zk.Stat, error) { return l.Children(ctx, "/data") },
		} {
			t.Run(op+", "+name, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					harness.MakeParents(t, w.Bare(), "/data/child")
					c := w.Client(nil)
					l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
					time.Sleep(2 * time.Second) // its place is watched by now
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: "/data", For: time.Second})
					a := harness.GoErr(t, func(ctx context.Context) error {
						got, stat, err := read(ctx, l)
						require.Empty(t, got)
						require.Nil(t, stat)
						return err
					})
					synctest.Wait()
					end.end(w, c, l)
					_, err := a.Wait()
					require.ErrorIs(t, err, end.want)
				})
			})
		}
	}
}

// A jump of the wall clock has no effect on a time with a monotonic reading, and
// time.Time's String shows whether there is one.
func TestInstantsOfALeaseDoNotFollowTheWallClock(t *testing.T) {
	c := recipetest.Dial(t, nil)
	l := recipetest.LockOn(t, zkrecipes.NewMutex(c, harness.NewPath(t)))
	require.Contains(t, l.ValidUntil().String(), " m=+")
	require.Contains(t, c.Status().Since.String(), " m=+")
}

// The session expires while the lease is held
func TestNothingWorksUnderALeaseThatIsLost(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		l := recipetest.LockOn(t, m)
		w.Expire(c)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		require.Zero(t, l.ValidUntil())
		_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/late", nil, 0, nil))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		_, _, err = l.Get(t.Context(), w.Path)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		_, err = m.Lock(l.Reentrant(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.Empty(t, w.Line(), "it is not taken again")
	})
}

// An expiry is never called an eviction. The events of the deletions come before the
// connection is closed, as from a real server.
func TestAnExpiryWhoseEventsComeFirstIsNotCalledAnEviction(t *testing.T) {
	for _, d := range []recipetest.Driver{
		recipetest.LockDrivers()[0], recipetest.KeepDriver(), recipetest.DowngradeDriver(),
		recipetest.SemaphoreDriver("slots", 3, 2), recipetest.ElectionDriver(),
	} {
		t.Run(d.Name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				ends := make(chan error, 1)
				c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{HoldEnd: func(e zkrecipes.TraceHoldEnd) { ends <- e.Err }}})
				u, err := d.Take(t.Context(), c)
				require.NoError(t, err)
				ctx := u.Held.Context(t.Context())
				time.Sleep(5 * time.Second) // its znodes are watched
				w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1})
				require.True(t, w.Srv.ExpireWithEvents(recipetest.SessionID(c)))
				synctest.Wait()
				require.Error(t, ctx.Err(), "at once")
				for _, err := range []error{u.Held.Err(), context.Cause(ctx)} {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.NotErrorIs(t, err, errs.ErrDeleted)
					require.NotContains(t, err.Error(), "somebody else")
				}
				w.Plan.Stop()
				time.Sleep(30 * time.Second) // the next handshake tells
				for _, err := range []error{u.Held.Err(), context.Cause(ctx), u.Give(t.Context()), <-ends} {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorIs(t, err, zk.ErrSessionExpired)
					require.NotContains(t, err.Error(), "deleted")
				}
			})
		})
	}
}

// An eviction is told as one, once a write was answered in the session.
func TestAnEvictionIsToldOnceTheSessionIsKnownToLive(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ctx := l.Context(t.Context())
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Bare().Delete(l.Check().Path, -1))
		synctest.Wait()
		for _, err := range []error{l.Err(), context.Cause(ctx), l.Release()} {
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			require.ErrorIs(t, err, errs.ErrDeleted)
			require.ErrorContains(t, err, "somebody else")
			require.NotErrorIs(t, err, zk.ErrSessionExpired)
		}
	})
}

// The servers answer the release, or close the connection before it, because they have
// expired the session.
func TestReleaseOfALeaseThatTheServersHadEndedReturnsErrLost(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known: ", known), func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				l := w.Holds(c)
				if known {
					w.Srv.Expire(recipetest.SessionID(c))
					require.ErrorIs(t, harness.Cause(t, l.Context(t.Context())), zkrecipes.ErrLost)
				} else {
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrSessionExpired, Op: w.Release})
				}
				err := l.Release()
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.Equal(t, err, l.Release())
				time.Sleep(time.Minute)
				require.Empty(t, w.Line())
			})
		})
	}
}
