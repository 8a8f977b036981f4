package zkrecipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// tracedWorld is a world with two Clients, of which one has a tracer.
type tracedWorld struct {
	*recipetest.World
	*recipetest.Tracer
	c, other *zkrecipes.Client
}

// evict deletes the last place in the line.
func (w *tracedWorld) evict() {
	w.T.Helper()
	line := w.Line()
	require.NoError(w.T, w.Bare().Delete(w.Path+"/"+line[len(line)-1].Name, -1))
	synctest.Wait()
}

type traceScenario struct {
	run  func(t *testing.T, w *tracedWorld)
	want []string
}

// What each scenario reports, in order.
var traceScenarios = map[string]traceScenario{
	"a free lock": {func(t *testing.T, w *tracedWorld) {
		require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(w.c, w.Path)).Release())
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	"a lock for which it waits": {func(t *testing.T, w *tracedWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.other, w.Path))
		a := w.LockLater(w.c)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	}, []string{"mutex lock queued behind 1", "mutex lock ok", "mutex lock held, ok"}},
	"a lock that somebody has": {func(t *testing.T, w *tracedWorld) {
		recipetest.LockOn(t, zkrecipes.NewMutex(w.other, w.Path))
		require.ErrorIs(t, errOf(zkrecipes.NewMutex(w.c, w.Path).TryLock)(t.Context()), zkrecipes.ErrLocked)
	}, []string{"mutex try lock locked"}},
	"canceled": {func(t *testing.T, w *tracedWorld) {
		recipetest.LockOn(t, zkrecipes.NewMutex(w.other, w.Path))
		a := w.LockLater(w.c)
		a.Cancel(nil)
		recipetest.Fails(t, a, context.Canceled)
	}, []string{"mutex lock queued behind 1", "mutex lock canceled"}},
	"the session expires while it holds": {func(t *testing.T, w *tracedWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.c, w.Path))
		w.Srv.Expire(recipetest.SessionID(w.c))
		<-l.Context(t.Context()).Done()
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
	}, []string{"mutex lock ok", "mutex lock held, lost"}},
	"the session expires while it waits": {func(t *testing.T, w *tracedWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.other, w.Path))
		a := w.LockLater(w.c)
		w.LockLater(w.other)
		w.Srv.Expire(recipetest.SessionID(w.c))
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, a.Waiting())
		w.evict() // itself
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)
	}, []string{"mutex lock queued behind 1", "mutex lock queued behind 2", "mutex lock evicted"}},
	"only the servers know that it was lost": {func(t *testing.T, w *tracedWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.c, w.Path))
		w.evict()
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	"closed while it holds": {func(t *testing.T, w *tracedWorld) {
		recipetest.LockOn(t, zkrecipes.NewMutex(w.c, w.Path))
		require.NoError(t, w.c.Close())
	}, []string{"mutex lock ok", "mutex lock held, closed"}},
	"a function that panics": {func(t *testing.T, w *tracedWorld) {
		require.Panics(t, func() {
			_ = zkrecipes.NewMutex(w.c, w.Path).Do(t.Context(), func(context.Context, *zkrecipes.Lease) error { panic("f") })
		})
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	"re-entries are no acquisitions": {func(t *testing.T, w *tracedWorld) {
		m := zkrecipes.NewMutex(w.c, w.Path)
		l := recipetest.LockOn(t, m)
		in := l.Reentrant(t.Context())
		again, err := m.Lock(in)
		require.NoError(t, err)
		once, err := m.TryLock(in)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.NoError(t, once.Release())
		require.Equal(t, []string{"mutex lock ok"}, w.Told())
		require.NoError(t, again.Release())
		require.ErrorIs(t, errOf(m.Lock)(in), zkrecipes.ErrReleased)
	}, []string{"mutex lock held, ok"}},
	"a holder's own context": {func(t *testing.T, w *tracedWorld) {
		m := zkrecipes.NewMutex(w.c, w.Path)
		l := recipetest.LockOn(t, m)
		require.ErrorIs(t, errOf(m.Lock)(l.Context(t.Context())), zkrecipes.ErrDeadlock)
		require.ErrorIs(t, errOf(m.TryLock)(l.Context(t.Context())), zkrecipes.ErrLocked)
		require.NoError(t, l.Release())
	}, []string{"mutex lock ok", "mutex lock deadlock", "mutex try lock locked", "mutex lock held, ok"}},
	"arguments that are refused": {func(t *testing.T, w *tracedWorld) {
		var none context.Context
		require.Error(t, errOf(zkrecipes.NewMutex(w.c, w.Path).Lock)(none))
		require.ErrorIs(t, errOf(zkrecipes.NewMutex(w.c, "no path").Lock)(t.Context()), zkrecipes.ErrInvalidPath)
		_, err := zkrecipes.NewSemaphore(w.c, "/s", 1).AcquireN(t.Context(), 0)
		require.Error(t, err)
		require.Error(t, zkrecipes.NewMutex(w.c, w.Path).Do(t.Context(), nil))
	}, nil},
	"readers and a downgrade": {func(t *testing.T, w *tracedWorld) {
		rw := zkrecipes.NewRWLock(w.c, "/rw")
		l := recipetest.Held(t, rw.Lock)
		require.ErrorIs(t, errOf(rw.TryRLock)(t.Context()), zkrecipes.ErrLocked)
		require.NoError(t, l.Downgrade(t.Context()))
		r := recipetest.Held(t, rw.RLock)
		require.ErrorIs(t, errOf(rw.Lock)(r.Context(t.Context())), zkrecipes.ErrUpgrade)
		require.NoError(t, r.Release())
		require.NoError(t, l.Release())
		require.NoError(t, recipetest.Held(t, rw.TryLock).Release())
	}, []string{
		"rwlock lock ok", "rwlock try read lock locked", "rwlock read lock ok", "rwlock lock upgrade",
		"rwlock read lock held, ok", "rwlock downgrade held, ok", "rwlock try lock ok", "rwlock try lock held, ok",
	}},
	"each hold of a kept lock": {func(t *testing.T, w *tracedWorld) {
		m := zkrecipes.NewMutex(w.c, w.Path, zkrecipes.KeepFor(time.Minute))
		require.NoError(t, recipetest.LockOn(t, m).Release())
		l := recipetest.Held(t, m.TryLock)
		a := w.Waits(m) // in the process
		require.ErrorIs(t, errOf(m.TryLock)(t.Context()), zkrecipes.ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.Len(t, w.Line(), 1)
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.Line(), "left, with nobody holding it")
	}, []string{
		"mutex lock ok", "mutex lock held, ok", "mutex try lock ok", "mutex try lock locked", "mutex try lock held, ok",
		"mutex lock ok", "mutex lock held, ok",
	}},
	"callers that wait for one place": {func(t *testing.T, w *tracedWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.other, w.Path))
		m := zkrecipes.NewMutex(w.c, w.Path, zkrecipes.KeepFor(time.Minute))
		a, b := w.Waits(m), w.Waits(m)
		b.Cancel(nil)
		recipetest.Fails(t, b, context.Canceled)
		require.Equal(t, []string{"mutex lock queued behind 1", "mutex lock canceled"}, w.Told())
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	"several locks": {func(t *testing.T, w *tracedWorld) {
		require.NoError(t, recipetest.LockAll(t, recipetest.Mutexes(w.c, "/b", "/a")...).Release())
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.other, "/b"))
		a := recipetest.LockAllLater(t, recipetest.Mutexes(w.c, "/b", "/a")...)
		a.Cancel(nil)
		recipetest.Fails(t, a, context.Canceled)
		require.NoError(t, l.Release())
	}, []string{
		"mutex lock all ok", "mutex lock all ok", "mutex lock all held, ok", "mutex lock all held, ok",
		"mutex lock all ok", "mutex lock all queued behind 1", "mutex lock all canceled", "mutex lock all held, ok",
	}},
	"slots": {func(t *testing.T, w *tracedWorld) {
		x := zkrecipes.NewSemaphore(w.c, "/s", 3)
		l := recipetest.Acquire(t, x, 2)
		_, err := x.TryAcquireN(t.Context(), 2)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		first := recipetest.AcquireLater(t, x, 3)
		synctest.Wait()
		last := recipetest.AcquireLater(t, x, 1)
		synctest.Wait()
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, first.Get())
		recipetest.ReleaseSlots(t, last.Get())
	}, []string{
		"semaphore acquire ok", "semaphore try acquire locked", "semaphore acquire queued behind 1",
		"semaphore acquire held, ok", "semaphore acquire ok", "semaphore acquire held, ok",
		"semaphore acquire ok", "semaphore acquire held, ok",
	}},
	"terms": {func(t *testing.T, w *tracedWorld) {
		e := zkrecipes.NewElection(w.c, "/e")
		require.NoError(t, recipetest.Campaigns(t, e, "x").Resign())
		times := 0
		require.NoError(t, e.Lead(t.Context(), nil, func(ctx context.Context, _ *zkrecipes.Term) error {
			if times++; times == 1 {
				require.NoError(t, w.Bare().Delete("/e/leader", -1))
				<-ctx.Done()
				synctest.Wait() // until its place is gone, or the next one would wait for it
			}
			return nil
		}))
	}, []string{
		"election campaign ok", "election campaign held, ok", "election lead ok", "election lead held, lost",
		"election lead ok", "election lead held, ok",
	}},
	"items": {func(t *testing.T, w *tracedWorld) {
		q := w.Queue(w.c)
		require.ErrorIs(t, errOf(q.TryTake)(t.Context()), zkrecipes.ErrEmpty)
		recipetest.PutOn(t, q, "a", "b", "c")
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		w.Srv.Expire(recipetest.SessionID(w.c))
		<-it.Context(t.Context()).Done()
		its, err := q.TakeN(t.Context(), 5)
		require.NoError(t, err)
		require.Len(t, its, 2)
		_, err = its[0].AckPut(t.Context(), q, [][]byte{[]byte("d")})
		require.NoError(t, err)
		recipetest.AckOn(t, its[1])
	}, []string{
		"queue try take empty", "queue take ok", "queue take held, ok", "queue take ok", "queue take held, ok",
		"queue try take ok", "queue try take held, lost",
		"queue take ok", "queue take ok", "queue take held, ok", "queue take held, ok",
	}},
	"consumers in line": {func(t *testing.T, w *tracedWorld) {
		other := w.TakeLater(w.Queue(w.other))
		a := w.TakeLater(w.Queue(w.c))
		recipetest.PutOn(t, w.Queue(w.other), "a", "b")
		other.Get()
		recipetest.AckOn(t, a.Get())
	}, []string{"queue take queued behind 1", "queue take ok", "queue take held, ok"}},
	"handlers": {func(t *testing.T, w *tracedWorld) {
		q := zkrecipes.NewQueue(w.c, w.Path, &zkrecipes.QueueOptions{Backoff: func(int) time.Duration { return time.Second }})
		recipetest.PutOn(t, q, "a")
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, q.Serve(ctx, func(_ context.Context, it *zkrecipes.Item) error {
			switch it.Attempt {
			case 1:
				return recipetest.ErrHandler
			case 2:
				return it.Nack(t.Context())
			case 3:
				panic("handler")
			}
			time.AfterFunc(time.Hour, cancel)
			return nil
		}))
	}, []string{
		"queue serve ok", "queue serve held, ok", "queue serve ok", "queue serve held, ok",
		"queue serve ok", "queue serve held, ok", "queue serve ok", "queue serve held, ok", "queue serve canceled",
	}},
	"puts that may wait": {func(t *testing.T, w *tracedWorld) {
		q := zkrecipes.NewQueue(w.c, w.Path, &zkrecipes.QueueOptions{MaxLen: 1})
		recipetest.PutOn(t, q, "a")
		a := recipetest.PutLater(t, q, "b")
		synctest.Wait()
		b := recipetest.PutLater(t, q, "c")
		synctest.Wait()
		b.Cancel(nil)
		recipetest.Fails(t, b, context.Canceled)
		recipetest.AckOn(t, recipetest.TakeOn(t, w.Queue(w.other)))
		a.Get()
		recipetest.PutOn(t, w.Queue(w.c), "d") // without a bound
	}, []string{"queue put ok", "queue put queued behind 1", "queue put canceled", "queue put ok"}},
	"rounds": {func(t *testing.T, w *tracedWorld) {
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.c, "/b", 2))
		synctest.Wait()
		require.ErrorIs(t, errOf(zkrecipes.NewBarrier(w.c, "/b", 3).Wait)(t.Context()), zkrecipes.ErrSize)
		recipetest.WaitLater(t, zkrecipes.NewBarrier(w.other, "/b", 2)).Get()
		a.Get()
	}, []string{"barrier wait size", "barrier wait ok"}},
	"visits": {func(t *testing.T, w *tracedWorld) {
		a, b := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.c, "/d", 2)), recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.other, "/d", 2))
		v := recipetest.Visits(t, a, b)
		left := harness.GoErr(t, v[0].Leave)
		synctest.Wait()
		require.Equal(t, []string{"doublebarrier enter ok", "doublebarrier enter held, ok"}, w.Told())
		require.NoError(t, v[1].Leave(t.Context()))
		left.Get()
		c := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.c, "/d", 2))
		synctest.Wait()
		c.Cancel(nil)
		recipetest.Fails(t, c, context.Canceled)
	}, []string{"doublebarrier enter canceled"}},
	"a gate": {func(t *testing.T, w *tracedWorld) {
		g := zkrecipes.NewGate(w.c, "/g")
		require.NoError(t, g.Shut(t.Context()))
		a := harness.GoErr(t, g.Wait)
		synctest.Wait()
		require.NoError(t, g.Open(t.Context()))
		a.Get()
		require.NoError(t, errOf(g.IsOpen)(t.Context()))
	}, []string{"gate wait ok"}},
}

func TestTraceReportsEachAcquisitionAndEachHoldInPairs(t *testing.T) {
	recipetest.EachInBubble(t, traceScenarios, func(t *testing.T, w *recipetest.World, tt traceScenario) {
		r := recipetest.NewTracer(t)
		traced := &tracedWorld{w, r, w.Stranger(&zkrecipes.Options{Trace: r.Trace()}), w.Stranger(nil)}
		tt.run(t, traced)
		require.Equal(t, tt.want, r.Told())
		require.NoError(t, traced.c.Close())
		require.Empty(t, r.Told(), "nothing was left")
		r.Rest()
	})
}
