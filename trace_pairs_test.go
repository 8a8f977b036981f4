package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// tracedWorld is a world with two Clients, of which one has a tracer.
type tracedWorld struct {
	*world
	*tracer
	c, other *Client
}

// evict deletes the last place in the line.
func (w *tracedWorld) evict() {
	w.t.Helper()
	line := w.line()
	require.NoError(w.t, w.bare().Delete(w.path+"/"+line[len(line)-1].Name, -1))
	synctest.Wait()
}

// What each scenario reports, in order.
var traceScenarios = []struct {
	name string
	run  func(t *testing.T, w *tracedWorld)
	want []string
}{
	{"a free lock", func(t *testing.T, w *tracedWorld) {
		require.NoError(t, lockOn(t, NewMutex(w.c, w.path)).Release())
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	{"a lock for which it waits", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.other, w.path))
		a := w.lockLater(w.c)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	}, []string{"mutex lock queued behind 1", "mutex lock ok", "mutex lock held, ok"}},
	{"a lock that somebody has", func(t *testing.T, w *tracedWorld) {
		lockOn(t, NewMutex(w.other, w.path))
		_, err := NewMutex(w.c, w.path).TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
	}, []string{"mutex try lock locked"}},
	{"canceled", func(t *testing.T, w *tracedWorld) {
		lockOn(t, NewMutex(w.other, w.path))
		a := w.lockLater(w.c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
	}, []string{"mutex lock queued behind 1", "mutex lock canceled"}},
	{"canceled before", func(t *testing.T, w *tracedWorld) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := NewMutex(w.c, w.path).Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}, []string{"mutex lock canceled"}},
	{"the session expires while it holds", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.c, w.path))
		w.srv.Expire(sessionID(w.c))
		<-l.Context(t.Context()).Done()
		require.ErrorIs(t, l.Release(), ErrLost)
	}, []string{"mutex lock ok", "mutex lock held, lost"}},
	{"the session expires while it waits", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.other, w.path))
		a := w.lockLater(w.c)
		w.lockLater(w.other)
		w.srv.Expire(sessionID(w.c))
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, a.Waiting())
		w.evict() // itself
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrEvicted)
	}, []string{"mutex lock queued behind 1", "mutex lock queued behind 2", "mutex lock evicted"}},
	{"somebody deletes the holder's place", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.c, w.path))
		time.Sleep(5 * time.Second) // it watches it
		w.evict()
		require.ErrorIs(t, l.Err(), ErrLost)
	}, []string{"mutex lock ok", "mutex lock held, lost"}},
	{"only the servers know that it was lost", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.c, w.path))
		w.evict()
		require.ErrorIs(t, l.Release(), ErrLost)
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	{"closed while it holds", func(t *testing.T, w *tracedWorld) {
		lockOn(t, NewMutex(w.c, w.path))
		require.NoError(t, w.c.Close())
	}, []string{"mutex lock ok", "mutex lock held, closed"}},
	{"closed while it waits", func(t *testing.T, w *tracedWorld) {
		lockOn(t, NewMutex(w.other, w.path))
		a := w.lockLater(w.c)
		require.NoError(t, w.c.Close())
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrClosed)
	}, []string{"mutex lock queued behind 1", "mutex lock closed"}},
	{"closed before", func(t *testing.T, w *tracedWorld) {
		require.NoError(t, w.c.Close())
		_, err := NewMutex(w.c, w.path).TryLock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	}, []string{"mutex try lock closed"}},
	{"a function that panics", func(t *testing.T, w *tracedWorld) {
		require.Panics(t, func() {
			_ = NewMutex(w.c, w.path).Do(t.Context(), func(context.Context, *Lease) error { panic("f") })
		})
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	{"re-entries are no acquisitions", func(t *testing.T, w *tracedWorld) {
		m := NewMutex(w.c, w.path)
		l := lockOn(t, m)
		in := l.Reentrant(t.Context())
		again, err := m.Lock(in)
		require.NoError(t, err)
		once, err := m.TryLock(in)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.NoError(t, once.Release())
		require.Equal(t, []string{"mutex lock ok"}, w.told())
		require.NoError(t, again.Release())
		_, err = m.Lock(in)
		require.ErrorIs(t, err, ErrReleased)
	}, []string{"mutex lock held, ok"}},
	{"a holder's own context", func(t *testing.T, w *tracedWorld) {
		m := NewMutex(w.c, w.path)
		l := lockOn(t, m)
		_, err := m.Lock(l.Context(t.Context()))
		require.ErrorIs(t, err, ErrDeadlock)
		_, err = m.TryLock(l.Context(t.Context()))
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l.Release())
	}, []string{"mutex lock ok", "mutex lock deadlock", "mutex try lock locked", "mutex lock held, ok"}},
	{"arguments that are refused", func(t *testing.T, w *tracedWorld) {
		var none context.Context
		_, err := NewMutex(w.c, w.path).Lock(none)
		require.Error(t, err)
		_, err = NewMutex(w.c, "no path").Lock(t.Context())
		require.ErrorIs(t, err, ErrInvalidPath)
		_, err = NewSemaphore(w.c, "/s", 1).AcquireN(t.Context(), 0)
		require.Error(t, err)
		require.Error(t, NewMutex(w.c, w.path).Do(t.Context(), nil))
	}, nil},
	{"readers and a downgrade", func(t *testing.T, w *tracedWorld) {
		rw := NewRWLock(w.c, "/rw")
		l := held(t, rw.Lock)
		_, err := rw.TryRLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, rw.Downgrade(t.Context(), l))
		r := held(t, rw.RLock)
		_, err = rw.Lock(r.Context(t.Context()))
		require.ErrorIs(t, err, ErrUpgrade)
		require.NoError(t, r.Release())
		require.NoError(t, l.Release())
		require.NoError(t, held(t, rw.TryLock).Release())
	}, []string{
		"rwlock lock ok", "rwlock try read lock locked", "rwlock read lock ok", "rwlock lock upgrade",
		"rwlock read lock held, ok", "rwlock downgrade held, ok", "rwlock try lock ok", "rwlock try lock held, ok",
	}},
	{"each hold of a kept lock", func(t *testing.T, w *tracedWorld) {
		m := NewMutex(w.c, w.path, KeepFor(time.Minute))
		require.NoError(t, lockOn(t, m).Release())
		l := held(t, m.TryLock)
		a := w.waits(m) // in the process
		_, err := m.TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.Len(t, w.line(), 1)
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.line(), "left, with nobody holding it")
	}, []string{
		"mutex lock ok", "mutex lock held, ok", "mutex try lock ok", "mutex try lock locked", "mutex try lock held, ok",
		"mutex lock ok", "mutex lock held, ok",
	}},
	{"callers that wait for one place", func(t *testing.T, w *tracedWorld) {
		l := lockOn(t, NewMutex(w.other, w.path))
		m := NewMutex(w.c, w.path, KeepFor(time.Minute))
		a, b := w.waits(m), w.waits(m)
		b.Cancel(nil)
		_, err := b.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{"mutex lock queued behind 1", "mutex lock canceled"}, w.told())
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	}, []string{"mutex lock ok", "mutex lock held, ok"}},
	{"several locks", func(t *testing.T, w *tracedWorld) {
		require.NoError(t, lockAll(t, mutexes(w.c, "/b", "/a")...).Release())
		l := lockOn(t, NewMutex(w.other, "/b"))
		a := lockAllLater(t, mutexes(w.c, "/b", "/a")...)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release())
	}, []string{
		"mutex lock all ok", "mutex lock all ok", "mutex lock all held, ok", "mutex lock all held, ok",
		"mutex lock all ok", "mutex lock all queued behind 1", "mutex lock all canceled", "mutex lock all held, ok",
	}},
	{"slots", func(t *testing.T, w *tracedWorld) {
		x := NewSemaphore(w.c, "/s", 3)
		l := acquire(t, x, 2)
		_, err := x.TryAcquireN(t.Context(), 2)
		require.ErrorIs(t, err, ErrLocked)
		first := acquireLater(t, x, 3)
		synctest.Wait()
		last := acquireLater(t, x, 1)
		synctest.Wait()
		releaseSlots(t, l)
		releaseSlots(t, first.Get())
		releaseSlots(t, last.Get())
	}, []string{
		"semaphore acquire ok", "semaphore try acquire locked", "semaphore acquire queued behind 1",
		"semaphore acquire held, ok", "semaphore acquire ok", "semaphore acquire held, ok",
		"semaphore acquire ok", "semaphore acquire held, ok",
	}},
	{"a slot is lost", func(t *testing.T, w *tracedWorld) {
		l := acquire(t, NewSemaphore(w.c, "/s", 3), 3)
		time.Sleep(5 * time.Second)
		require.NoError(t, w.bare().Delete(l.lease.handle.Grant.Place().Others[0], -1))
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
	}, []string{"semaphore acquire ok", "semaphore acquire held, lost"}},
	{"terms", func(t *testing.T, w *tracedWorld) {
		e := NewElection(w.c, "/e")
		require.NoError(t, campaigns(t, e, "x").Resign())
		times := 0
		require.NoError(t, e.Lead(t.Context(), nil, func(ctx context.Context, _ *Term) error {
			if times++; times == 1 {
				require.NoError(t, w.bare().Delete("/e/leader", -1))
				<-ctx.Done()
				synctest.Wait() // until its place is gone, or the next one would wait for it
			}
			return nil
		}))
	}, []string{
		"election campaign ok", "election campaign held, ok", "election lead ok", "election lead held, lost",
		"election lead ok", "election lead held, ok",
	}},
	{"items", func(t *testing.T, w *tracedWorld) {
		q := w.queue(w.c)
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, ErrEmpty)
		putOn(t, q, "a", "b", "c")
		ackOn(t, takeOn(t, q))
		nackOn(t, takeOn(t, q))
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		w.srv.Expire(sessionID(w.c))
		<-it.Context(t.Context()).Done()
		its, err := q.TakeN(t.Context(), 5)
		require.NoError(t, err)
		require.Len(t, its, 2)
		_, err = its[0].AckPut(t.Context(), q, [][]byte{[]byte("d")})
		require.NoError(t, err)
		ackOn(t, its[1])
	}, []string{
		"queue try take empty", "queue take ok", "queue take held, ok", "queue take ok", "queue take held, ok",
		"queue try take ok", "queue try take held, lost",
		"queue take ok", "queue take ok", "queue take held, ok", "queue take held, ok",
	}},
	{"items that nobody gets", func(t *testing.T, w *tracedWorld) {
		q := NewQueue(w.c, w.path, &QueueOptions{MaxAttempts: 1})
		putOn(t, q, "a")
		nackOn(t, takeOn(t, q))
		a := w.takeLater(q) // it moves the item to the dead letters
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		n, err := q.DeadLetters().Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}, []string{"queue take ok", "queue take held, ok", "queue take canceled"}},
	{"consumers in line", func(t *testing.T, w *tracedWorld) {
		other := w.takeLater(w.queue(w.other))
		a := w.takeLater(w.queue(w.c))
		putOn(t, w.queue(w.other), "a", "b")
		other.Get()
		ackOn(t, a.Get())
	}, []string{"queue take queued behind 1", "queue take ok", "queue take held, ok"}},
	{"handlers", func(t *testing.T, w *tracedWorld) {
		q := NewQueue(w.c, w.path, &QueueOptions{Backoff: func(int) time.Duration { return time.Second }})
		putOn(t, q, "a")
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, q.Serve(ctx, func(_ context.Context, it *Item) error {
			switch it.Attempt {
			case 1:
				return errHandler
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
	{"puts that may wait", func(t *testing.T, w *tracedWorld) {
		q := NewQueue(w.c, w.path, &QueueOptions{MaxLen: 1})
		putOn(t, q, "a")
		a := putLater(t, q, "b")
		synctest.Wait()
		b := putLater(t, q, "c")
		synctest.Wait()
		b.Cancel(nil)
		_, err := b.Wait()
		require.ErrorIs(t, err, context.Canceled)
		ackOn(t, takeOn(t, w.queue(w.other)))
		a.Get()
		putOn(t, w.queue(w.c), "d") // without a bound
	}, []string{"queue put ok", "queue put queued behind 1", "queue put canceled", "queue put ok"}},
	{"rounds", func(t *testing.T, w *tracedWorld) {
		a := waitLater(t, NewBarrier(w.c, "/b", 2))
		synctest.Wait()
		_, err := NewBarrier(w.c, "/b", 3).Wait(t.Context())
		require.ErrorIs(t, err, ErrSize)
		waitLater(t, NewBarrier(w.other, "/b", 2)).Get()
		a.Get()
	}, []string{"barrier wait size", "barrier wait ok"}},
	{"visits", func(t *testing.T, w *tracedWorld) {
		a, b := enter(t, NewDoubleBarrier(w.c, "/d", 2)), enter(t, NewDoubleBarrier(w.other, "/d", 2))
		v := visits(t, a, b)
		left := harness.GoErr(t, v[0].Leave)
		synctest.Wait()
		require.Equal(t, []string{"doublebarrier enter ok", "doublebarrier enter held, ok"}, w.told())
		require.NoError(t, v[1].Leave(t.Context()))
		left.Get()
		c := enter(t, NewDoubleBarrier(w.c, "/d", 2))
		synctest.Wait()
		c.Cancel(nil)
		_, err := c.Wait()
		require.ErrorIs(t, err, context.Canceled)
	}, []string{"doublebarrier enter canceled"}},
	{"a gate", func(t *testing.T, w *tracedWorld) {
		g := NewGate(w.c, "/g")
		require.NoError(t, g.Shut(t.Context()))
		a := harness.GoErr(t, g.Wait)
		synctest.Wait()
		require.NoError(t, g.Open(t.Context()))
		a.Get()
		_, err := g.IsOpen(t.Context())
		require.NoError(t, err)
	}, []string{"gate wait ok"}},
}

func TestTraceReportsEachAcquisitionAndEachHoldInPairs(t *testing.T) {
	for _, tt := range traceScenarios {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := newTracer(t)
				traced := &tracedWorld{w, r, w.stranger(&Options{Trace: r.trace()}), w.stranger(nil)}
				tt.run(t, traced)
				require.Equal(t, tt.want, r.told())
				require.NoError(t, traced.c.Close())
				require.Empty(t, r.told(), "nothing was left")
				r.Rest()
			})
		})
	}
}

// Whatever happens at whichever request, what is reported comes in pairs.
func TestTraceReportsPairsWhateverFails(t *testing.T) {
	errOther := errors.New("other end")
	uses := map[string]struct {
		ops []string
		run func(ctx context.Context, c *Client) error
	}{
		"mutex": {[]string{opJoin, "getChildren2", "getData", opRelease}, func(ctx context.Context, c *Client) error {
			return NewMutex(c, "/line").Do(ctx, nothing)
		}},
		"kept": {[]string{opJoin, "getChildren2", "getData", "exists"}, func(ctx context.Context, c *Client) error {
			m := NewMutex(c, "/line", KeepFor(time.Second))
			return errors.Join(m.Do(ctx, nothing), m.Do(ctx, nothing))
		}},
		"downgrade": {[]string{opJoin, opDowngrade, "multi(delete)"}, func(ctx context.Context, c *Client) error {
			rw := NewRWLock(c, "/rw")
			return rw.Do(ctx, func(ctx context.Context, l *Lease) error { return rw.Downgrade(ctx, l) })
		}},
		"semaphore": {[]string{opTakeFree, opTakeTurn, opJoin, opGiveBack, "getData"}, func(ctx context.Context, c *Client) error {
			return NewSemaphore(c, "/s", 1).Do(ctx, func(context.Context, *SlotLease) error { return nil })
		}},
		"election": {[]string{opJoin, "getData", "multi(check,create,setData)"}, func(ctx context.Context, c *Client) error {
			return NewElection(c, "/e").Lead(ctx, nil, func(context.Context, *Term) error { return nil })
		}},
		"queue": {[]string{opJoin, opClaim, opClaimAlone, "getChildren2", "getData", "multi(delete,delete,delete)"}, func(ctx context.Context, c *Client) error {
			q := NewQueue(c, "/q", &QueueOptions{MaxLen: 5})
			if _, err := q.Put(ctx, nil); err != nil {
				return err
			}
			it, err := q.Take(ctx)
			if err != nil {
				return err
			}
			return it.Ack(ctx)
		}},
		"barriers": {[]string{"getData", "getChildren2", "multi(create,setData)", "multi(check,create,setData)"}, func(ctx context.Context, c *Client) error {
			if _, err := NewBarrier(c, "/b", 1).Wait(ctx); err != nil {
				return err
			}
			v, err := NewDoubleBarrier(c, "/d", 1).Enter(ctx)
			if err != nil {
				return err
			}
			return v.Leave(ctx)
		}},
	}
	for name, use := range uses {
		fired := 0
		for _, op := range use.ops {
			for _, do := range []zktest.Action{zktest.Drop, zktest.Withhold, zktest.Expire, zktest.Delay, zktest.Answer} {
				for _, after := range []bool{false, true} {
					for _, end := range []string{"goes on", "canceled", "closed"} {
						what := fmt.Sprint(name, ", ", do, " ", op, " after ", after, ", ", end)
						inBubble(t, func(t *testing.T, w *world) {
							r := newTracer(t)
							c := w.stranger(&Options{Trace: r.trace()})
							require.NoError(t, use.run(t.Context(), c), what)
							time.Sleep(2 * time.Second) // a kept lock is left
							fault := zktest.Fault{Op: op, Do: do, After: after}
							switch do {
							case zktest.Delay:
								fault.For = time.Minute
							case zktest.Answer:
								fault.Code = -7
							}
							w.plan.Add(fault)
							ctx, cancel := context.WithCancelCause(t.Context())
							calls := [2]*harness.Call[struct{}]{}
							for i := range calls {
								calls[i] = harness.GoErr(t, func(context.Context) error { return use.run(ctx, c) })
							}
							time.Sleep(time.Second)
							switch end {
							case "canceled":
								cancel(errOther)
							case "closed":
								require.NoError(t, ignore(c.Close(), ErrSessionNotClosed), what)
							}
							for _, a := range calls {
								_, _ = a.Wait()
							}
							cancel(nil)
							for _, n := range w.plan.Fired() {
								fired += n
							}
							w.plan.Stop()
							require.NoError(t, ignore(c.Close(), ErrSessionNotClosed), what)
							r.told()
							r.Rest()
						})
						if t.Failed() {
							t.Fatal(what)
						}
					}
				}
			}
		}
		t.Logf("%s: %d faults", name, fired)
		require.NotZero(t, fired, name)
	}
}

// ignore returns nil if err is that one.
func ignore(err, that error) error {
	if errors.Is(err, that) {
		return nil
	}
	return err
}
