package zkconn_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Calls whose caller gives up, whose connection is lost, or whose reply is unexpected.

// stuck is a connection to a server that has stopped reading: while on is set, a write
// blocks until the connection is closed.
type stuck struct {
	net.Conn
	on     *atomic.Bool
	closed chan struct{}
}

// sticking returns a dialer of such connections.
func sticking(w *recipetest.World, on *atomic.Bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := w.Srv.DialContext(ctx, network, addr)
		return &stuck{nc, on, make(chan struct{})}, err
	}
}

func (c *stuck) Write(p []byte) (int, error) {
	if c.on.Load() {
		<-c.closed
	}
	return c.Conn.Write(p)
}

func (c *stuck) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

func TestCallersCanGiveUpOnAServerThatHasStopped(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var stopped atomic.Bool
		c := w.Client(&zkrecipes.Options{Dialer: sticking(w, &stopped)})
		m, other := zkrecipes.NewMutex(c, w.Path), zkrecipes.NewMutex(c, "/other")
		l := recipetest.LockOn(t, other)
		stopped.Store(true)
		givesUp := func(f func(context.Context) error) error {
			call := harness.GoErr(t, f)
			synctest.Wait()
			require.True(t, call.Waiting())
			call.Cancel(nil)
			_, err := call.Wait()
			require.ErrorIs(t, err, context.Canceled)
			return err
		}
		attempt := recipetest.LockLater(t, m)
		for range 8 {
			require.ErrorIs(t, givesUp(func(ctx context.Context) error {
				_, err := l.Commit(ctx, zkrecipes.OpCreate("/large", make([]byte, 1<<20-1000), 0, nil))
				return err
			}), zkrecipes.ErrUncertain)
		}
		givesUp(func(ctx context.Context) error { _, err := m.TryLock(ctx); return err })
		recipetest.Leaves(t, attempt)
		stopped.Store(false)
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		require.NoError(t, l.Release())
		for _, m := range []*zkrecipes.Mutex{m, other} {
			require.NoError(t, m.Do(harness.Within(t, time.Minute), recipetest.Nothing), "no place blocks the line")
		}
		synctest.Wait()
		require.Empty(t, w.Line())
	})
}

// The cause of a caller's context may be any error, even one after which requests are
// retried.
func TestACallEndsWithALeaseOfAnotherClient(t *testing.T) {
	for what, test := range map[string]struct {
		op   string // that is under way
		call func(context.Context, *zkrecipes.Client) error
	}{
		"reading": {"getChildren2", func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewMutex(c, "/line").Contenders(ctx)
			return err
		}},
		"joining": {"multi", func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewMutex(c, "/line").Lock(ctx)
			return err
		}},
		"opening": {recipetest.OpMakeContainer, func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewMutex(c, "/new").Lock(ctx)
			return err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, other := w.Client(nil), w.Stranger(nil)
				lease := recipetest.Held(t, zkrecipes.NewMutex(other, "/other").Lock)
				w.Plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: test.op})
				under := harness.GoErr(t, func(context.Context) error { return test.call(lease.Context(t.Context()), c) })
				synctest.Wait()
				require.True(t, under.Waiting())
				require.True(t, w.Srv.Expire(recipetest.SessionID(other)))
				_, err := under.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				time.Sleep(time.Minute)
				require.Empty(t, w.Line())
			})
		})
	}
}

func TestALineIsCreatedWithItsParents(t *testing.T) {
	for name, test := range map[string]struct {
		fault zktest.Fault
		want  error
	}{
		"though the request is lost":   {zktest.Fault{Do: zktest.Drop}, nil},
		"though the reply is lost":     {zktest.Fault{Do: zktest.Drop, After: true}, nil},
		"though the session expires":   {zktest.Fault{Do: zktest.Expire, After: true}, nil},
		"unless the parent is refused": {zktest.Fault{Do: zktest.Answer, Path: "/a", Code: jute.ErrNoAuth}, zk.ErrNoAuth},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				test.fault.Op = recipetest.OpMakeContainer
				w.Plan.Add(test.fault)
				err := zkrecipes.NewMutex(w.Stranger(nil), "/a/b").Do(t.Context(), recipetest.Nothing)
				require.ErrorIs(t, err, test.want)
			})
		})
	}
}

func TestAnAnswerWithoutResultsIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var on atomic.Bool
		c := w.Client(&zkrecipes.Options{Dialer: harness.EditReplies(w.Srv.DialContext, func(op string, record []byte) []byte {
			if (strings.HasPrefix(op, "multi(") || strings.HasPrefix(op, "get")) && on.Load() {
				return jute.AppendInt32(append(jute.AppendInt32(nil, -1), 1), -1) // the header that ends the results
			}
			return record
		})})
		m := zkrecipes.NewMutex(c, w.Path)
		on.Store(true)
		_, err := m.Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorContains(t, err, "malformed reply")
		on.Store(false)
		require.NoError(t, m.Do(harness.Within(t, time.Minute), recipetest.Nothing), "the place was found and deleted")
	})
}

// A request that was not written when its connection was lost was certainly not
// carried out. It fails with an error that says so, or is sent again.
func TestATransactionThatWasNotWrittenIsDistinguishedFromOneThatMayHaveBeen(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var stopped atomic.Bool
		core := recipetest.NewCore(t, []string{w.Srv.Addr()}, sticking(w, &stopped))
		h := recipetest.Grab(t, core.MutexLine(w.Path).Acquire, layout.KindLock)
		create := func(path string, size int) any {
			return &zk.CreateRequest{Path: path, Data: make([]byte, size), Acl: core.ACL}
		}
		commit := func(path string, size int) *harness.Call[struct{}] {
			call := harness.GoErr(t, func(ctx context.Context) error {
				_, err := h.Commit(ctx, []any{create(path, size)})
				return err
			})
			synctest.Wait()
			return call
		}
		stopped.Store(true)
		first := commit("/first", 100_000) // it is being written
		unsent, err := core.S.Start(create("/unsent", 0))
		require.NoError(t, err, "Start does not block")
		again := commit("/again", 0)
		stopped.Store(false)
		w.Srv.Disconnect(core.S.ID())
		o := unsent.Wait(t.Context())
		require.True(t, o.Unsent())
		require.True(t, o.Transient(), "for callers that do not distinguish the two")
		_, err = first.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		again.Get() // sent on the next connection, once
		for path, want := range map[string]bool{"/first": false, "/unsent": false, "/again": true} {
			require.Equal(t, want, w.Has(path), path)
		}
		require.NoError(t, h.Release())
	})
}
