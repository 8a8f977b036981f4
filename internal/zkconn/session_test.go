package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Sessions under faults of the network and of servers.

// cut ends a session's connection, and makes its client dial in vain until taps.Release.
func cut(w *recipetest.World, session int64, taps *harness.Taps) {
	w.T.Helper()
	taps.Hold()
	require.True(w.T, w.Srv.Disconnect(session))
	synctest.Wait()
}

func TestRequestThatWaitsDoesNotRunInTheNextSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		taps := harness.NewTapsVia(w.Srv.DialContext)
		core := recipetest.NewCore(t, []string{w.Srv.Addr()}, taps.Dial)
		cut(w, core.S.ID(), taps)
		var calls []*harness.Call[struct{}]
		for i := range 24 {
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				return core.S.Multi(ctx, &zk.CreateRequest{Path: fmt.Sprint("/", i), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}).Err()
			}))
		}
		synctest.Wait()
		require.True(t, w.Srv.Expire(core.S.ID()))
		taps.Release()
		for _, call := range calls {
			_, err := call.Wait()
			require.ErrorIs(t, err, zkconn.ErrSessionOver)
		}
		require.ErrorIs(t, recipetest.ReadOnce(core.S, "/"), zkconn.ErrSessionOver, "nor does one that is made later")
		next, err := core.Live(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, core.S.ID(), next.ID())
		require.NoError(t, recipetest.ReadOnce(next, "/"))
		require.False(t, w.Busy("create"), "no request has reached the server")
	})
}

func TestSilentServerIsLeftForAnother(t *testing.T) {
	const timeout = 4 * time.Second
	dial := func(w *recipetest.World) (*zkrecipes.Client, *harness.Taps) {
		taps := harness.NewTapsVia(w.Srv.DialContext)
		c, err := zkrecipes.Dial(w.T.Context(), recipetest.ServerNames(2), &zkrecipes.Options{SessionTimeout: timeout, Dialer: taps.Dial})
		require.NoError(w.T, err)
		w.T.Cleanup(func() { c.Close() })
		return c, taps
	}

	t.Run("before it has answered at all", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			w.Plan.Add(zktest.Fault{Do: zktest.Silence})
			_, taps := dial(w)
			require.ElementsMatch(t, recipetest.ServerNames(2), taps.Asked(), "each name as it was given")
		})
	})

	t.Run("in the middle of a session", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c, taps := dial(w)
			l, err := zkrecipes.NewMutex(c, w.Path).Lock(t.Context())
			require.NoError(t, err)
			began := time.Now()
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold})
			time.Sleep(timeout)
			require.NoError(t, l.Err(), "the session has lived on")
			require.NoError(t, l.Release())
			require.ElementsMatch(t, recipetest.ServerNames(2), taps.Asked())
			require.Equal(t, timeout/2, taps.All()[0].Closed.Sub(began), "after the last answer; go-zookeeper waits two thirds")
		})
	})
}

func TestNegotiatedTimeoutIsUsed(t *testing.T) {
	for requested, negotiated := range map[time.Duration]time.Duration{
		time.Minute:      10 * time.Second,
		time.Millisecond: time.Second,
		3 * time.Second:  3 * time.Second,
	} {
		t.Run(requested.String(), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				// Before the first handshake the requested timeout says nothing about the server.
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "connect", For: 400 * time.Millisecond})
				c := w.Stranger(&zkrecipes.Options{SessionTimeout: requested})
				require.Equal(t, negotiated, c.Status().Timeout)
				l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
				require.Equal(t, negotiated-negotiated/100, time.Until(l.ValidUntil()))
				require.NoError(t, l.Release())
			}, zktest.SessionTimeouts(time.Second, 10*time.Second))
		})
	}
}

func TestSessionSurvivesDropsDuringReauthentication(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:password")}}})
		id := recipetest.SessionID(c)
		// A lease of each kind, and a waiter behind each.
		var leases []*zkrecipes.Lease
		var waiting []*harness.Call[*zkrecipes.Lease]
		for i, side := range recipetest.Sides {
			path := fmt.Sprint(w.Path, "-", i)
			leases = append(leases, recipetest.Held(t, side.Theirs(c, path).Lock))
			waiting = append(waiting, recipetest.Later(t, side.Ours(c, path).Lock))
		}
		cuts := 0
		for cuts < 100 {
			for _, fault := range []zktest.Fault{
				{Do: zktest.Drop, Op: "auth"}, {Do: zktest.Drop, Op: "auth", After: true}, {Do: zktest.Drop, Op: "connect", After: true},
			} {
				fault.Times = 8
				before := w.Srv.Counts()
				w.Plan.Add(fault)
				require.True(t, w.Srv.Disconnect(id))
				time.Sleep(recipetest.DefaultSessionTimeout * 9 / 10)
				cuts += w.Srv.Counts().Sub(before).Requests["connect"] - 1
			}
		}
		for i, l := range leases {
			require.NoError(t, l.Err())
			require.True(t, waiting[i].Waiting())
			require.NoError(t, l.Release(), "the session has lived on, with its credentials")
			require.NoError(t, waiting[i].Get().Release())
		}
		require.Equal(t, id, recipetest.SessionID(c))
	})
}

// The bubble ends once all goroutines have.
func TestWritesThatFailUnderLoadLeaveNoGoroutine(t *testing.T) {
	broken := errors.New("broken")
	for range 10 {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			taps := harness.NewTapsVia(w.Srv.DialContext)
			c := w.Stranger(&zkrecipes.Options{Dialer: taps.Dial})
			var failures atomic.Int32
			taps.OnWrite(func(tap *harness.Tap, op string, _ []byte) (bool, error) {
				if op != "connect" && op != "auth" && len(tap.Sent()) > 20 {
					failures.Add(1)
					return false, broken
				}
				return false, nil
			})
			for range 30 {
				go func() {
					for {
						if _, _, err := c.Get(context.Background(), "/"); errors.Is(err, zkrecipes.ErrClosed) {
							return
						} else if errors.Is(err, broken) {
							t.Error("the error of the socket is returned:", err)
						}
					}
				}()
			}
			for i, side := range recipetest.Sides {
				m := side.Ours(c, fmt.Sprint(w.Path, "-", i))
				go func() {
					for !errors.Is(m.Do(context.Background(), recipetest.Nothing), zkrecipes.ErrClosed) {
					}
				}()
			}
			for failures.Load() < 3 {
				time.Sleep(time.Second)
			}
			began := time.Now()
			c.Close()
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

// It is back, and somebody else may have created it anew while there was no connection.
func TestAZnodeThatIsBackIsDeletedOnlyOnTheConnectionThatShowedIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		taps := harness.NewTapsVia(w.Srv.DialContext)
		core := recipetest.NewCore(t, []string{w.Srv.Addr()}, taps.Dial)
		recipetest.InChunks(t, w.Bare(), []string{"/back", "/mine"}, createOpen)
		on, err := core.S.Connection()
		require.NoError(t, err)
		cut(w, core.S.ID(), taps)
		deletes := harness.GoErr(t, func(context.Context) error {
			core.S.DeleteTogether(on, []string{"/back"}, map[string]bool{})
			return nil
		})
		synctest.Wait()
		taps.Release()
		deletes.Get()
		require.True(t, w.Has("/back"))
		on, err = core.S.Connection()
		require.NoError(t, err)
		core.S.NoteFound("/mine") // the session has created it again
		core.S.DeleteTogether(on, []string{"/mine"}, map[string]bool{})
		core.S.DeleteTogether(on, []string{"/back"}, map[string]bool{})
		require.True(t, w.Has("/mine"))
		require.False(t, w.Has("/back"))
	})
}

func TestAZnodeThatOnlyOneServerHasKeepsNoOtherFromBeingDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := recipetest.NewCore(t, []string{w.Srv.Addr()}, w.Srv.DialContext)
		recipetest.InChunks(t, w.Bare(), []string{"/back"}, createOpen)
		on, err := core.S.Connection()
		require.NoError(t, err)
		absent := map[string]bool{}
		core.S.DeleteTogether(on, []string{"/absent", "/back"}, absent)
		require.True(t, w.Has("/back"), "they go together, or the next list tells")
		core.S.DeleteTogether(on, []string{"/absent", "/back"}, absent)
		require.False(t, w.Has("/back"))
	})
}

func createOpen(path string) any {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
}
