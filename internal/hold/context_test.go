package hold_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestContextsOfALeaseThatLivesLongTakeNoMemory(t *testing.T) {
	type key struct{}
	for name, parent := range map[string]func(context.Context) context.Context{
		"their parents never end": func(ctx context.Context) context.Context { return ctx },
		"their parents have ended": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), harness.NewPath(t)))
			before := recipetest.HeldHeap()
			for i := range 20_000 {
				ctx := l.Context(parent(context.WithValue(context.Background(), key{}, i)))
				require.Equal(t, i, ctx.Value(key{}))
			}
			harness.Eventually(t, "what is kept", func() bool { return recipetest.HeldHeap()-before < 1<<20 })
			require.NoError(t, l.Release())
		})
	}
}

// ownContext is a context whose Done channel is its own.
type ownContext struct {
	context.Context
	done chan struct{}
}

func (c ownContext) Done() <-chan struct{} { return c.done }

func TestContextsOfALeaseAndThoseDerivedEndWithParentOrLeaseAndTellWhy(t *testing.T) {
	type key struct{}
	why := errors.New("why")
	never := func() (context.Context, context.CancelCauseFunc) { return context.Background(), func(error) {} }
	cancelable := func() (context.Context, context.CancelCauseFunc) {
		return context.WithCancelCause(context.Background())
	}
	release := func(h *hold.Handle, _ context.CancelCauseFunc) { h.Release() }
	loss := func(h *hold.Handle, _ context.CancelCauseFunc) { h.Grant.End(errs.Lost(why)) }
	canceled := func(_ *hold.Handle, cancel context.CancelCauseFunc) { cancel(why); synctest.Wait() }
	for name, tt := range map[string]struct {
		parent func() (context.Context, context.CancelCauseFunc)
		end    func(h *hold.Handle, cancel context.CancelCauseFunc)
		err    error // of the context
		cause  error
	}{
		"release":                             {never, release, context.Canceled, zkrecipes.ErrReleased},
		"release, with a parent that can end": {cancelable, release, context.Canceled, zkrecipes.ErrReleased},
		"loss":                                {cancelable, loss, context.Canceled, why},
		"parent is canceled":                  {cancelable, canceled, context.Canceled, why},
		"parent's deadline": {func() (context.Context, context.CancelCauseFunc) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, why)
			return ctx, func(error) { cancel() }
		}, func(*hold.Handle, context.CancelCauseFunc) { time.Sleep(time.Hour) }, context.DeadlineExceeded, why},
		"parent of a type of its own": {func() (context.Context, context.CancelCauseFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			own := ownContext{ctx, make(chan struct{})}
			context.AfterFunc(ctx, func() { close(own.done) })
			return own, cancel
		}, canceled, context.Canceled, why},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				h := recipetest.Grab(t, w.NewCore().MutexLine(w.Path).Acquire, layout.KindLock)
				parent, cancel := tt.parent()
				defer cancel(nil)
				var ctxs []context.Context
				for i := range 2 {
					ctx := h.Context(context.WithValue(parent, key{}, i))
					derived, stop := context.WithCancel(context.WithValue(ctx, t, i))
					defer stop()
					later, stop := context.WithTimeout(ctx, time.Hour)
					defer stop()
					for _, ctx := range []context.Context{ctx, derived, later} {
						require.NoError(t, ctx.Err())
						require.NoError(t, context.Cause(ctx))
						require.Equal(t, i, ctx.Value(key{}))
						require.Nil(t, ctx.Value("no such key"))
						ctxs = append(ctxs, ctx)
					}
				}
				tt.end(h, cancel)
				for i, ctx := range append(ctxs, h.Context(parent)) {
					require.Equal(t, tt.err, ctx.Err(), i)
					require.ErrorIs(t, context.Cause(ctx), tt.cause, i)
					<-ctx.Done()
				}
				synctest.Wait()
				require.Zero(t, h.Contexts())
			})
		})
	}
}

func TestContextOfALeaseHasItsParentsDeadlineAndValuesAndNoOthers(t *testing.T) {
	type key string
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		root, cancel := context.WithCancel(context.WithValue(context.Background(), key("root"), true))
		defer cancel()
		a := l.Context(context.WithValue(root, key("a"), true))
		b := l.Context(context.WithValue(root, key("b"), true))
		require.Nil(t, a.Value(key("b")))
		require.Nil(t, b.Value(key("a")))
		require.Equal(t, true, b.Value(key("root")))
		require.Nil(t, l.Context(context.Background()).Value(key("a")))

		at := time.Now().Add(time.Hour)
		limited, cancel := context.WithDeadline(root, at)
		defer cancel()
		deadline, ok := l.Context(limited).Deadline()
		require.True(t, ok)
		require.True(t, at.Equal(deadline))
		_, ok = a.Deadline()
		require.False(t, ok)
	})
}

func TestContextsOfManyLeasesWithinEachOtherAreQuick(t *testing.T) {
	type key struct{}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx := w.Stranger(nil), t.Context()
		for i := range 40 { // were each level to ask twice, the lookup would not end
			ctx = recipetest.LockOn(t, zkrecipes.NewMutex(c, fmt.Sprint("/", i))).Context(ctx)
		}
		require.Nil(t, ctx.Value(key{}))
		_, err := zkrecipes.NewMutex(c, "/0").Lock(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
	})
}

// inquisitive is a context of the user's that asks the lease.
type inquisitive struct {
	context.Context
	lease *zkrecipes.Lease
}

func (c inquisitive) Err() error {
	if err := c.lease.Err(); err != nil {
		return err
	}
	return c.Context.Err()
}

func (c inquisitive) Value(key any) any {
	_ = c.lease.Err()
	return c.Context.Value(key)
}

func TestParentOfALeasesContextMayAskTheLease(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Context(inquisitive{ended, l}).Err(), context.Canceled)
		lasting, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctx := l.Context(inquisitive{lasting, l})
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Release())
		require.ErrorIs(t, harness.Cause(t, ctx), zkrecipes.ErrReleased)
	})
}

func TestTheLastReleaseWaitsForTheContextsOfOneThatIsUnderWay(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := zkrecipes.NewMutex(w.Client(nil), w.Path)
		outer := recipetest.LockOn(t, m)
		inner, err := m.Lock(outer.Reentrant(t.Context()))
		require.NoError(t, err)
		above, cancel := context.WithCancel(t.Context())
		defer cancel()
		var slow atomic.Bool
		goOn := make(chan struct{})
		inner.Context(recipetest.Hooked{Context: above, F: func() {
			if slow.Load() { // the end of a context below it calls Done
				<-goOn
			}
		}})
		synctest.Wait()
		slow.Store(true)
		first := harness.GoErr(t, func(context.Context) error { return inner.Release() })
		synctest.Wait()
		require.True(t, first.Waiting())
		last := harness.GoErr(t, func(context.Context) error { return outer.Release() })
		synctest.Wait()
		require.Len(t, w.Line(), 1, "others cannot hold while contexts of a holder have not ended")
		close(goOn)
		first.Get()
		last.Get()
		require.Empty(t, w.Line())
	})
}
