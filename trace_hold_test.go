package zkrecipes

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// holdsOf notes what a Trace tells of holds and what came before them.
type holdsOf struct {
	starts []TraceHoldStart
	ends   []TraceHoldEnd
	grants []TraceAcquireEnd
}

func (h *holdsOf) trace() *Trace {
	return &Trace{
		AcquireEnd: func(_ context.Context, e TraceAcquireEnd) { h.grants = append(h.grants, e) },
		HoldStart:  func(_ context.Context, e TraceHoldStart) { h.starts = append(h.starts, e) },
		HoldEnd:    func(e TraceHoldEnd) { h.ends = append(h.ends, e) },
	}
}

// predecessors returns those of the grants since the last call.
func (h *holdsOf) predecessors() (names []string) {
	synctest.Wait()
	for _, e := range h.grants {
		names = append(names, e.Predecessor)
	}
	h.grants = nil
	return names
}

// One Trace for two Clients: what differs in nothing else is told apart by the Hold.
func TestEachHoldHasAHoldOfItsOwnThatIsOngoingUntilItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var h holdsOf
		opts := &Options{Trace: h.trace()}
		c, other := w.stranger(opts), w.stranger(opts)
		rw := NewRWLock(c, "/rw")
		x := NewSemaphore(c, "/s", 3)
		q := w.queue(c)
		putOn(t, q, "a", "b", "c")
		its, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		kept := NewMutex(c, "/kept", KeepFor(time.Hour))
		require.NoError(t, lockOn(t, kept).Release())
		releases := []func() error{
			held(t, rw.RLock).Release, held(t, rw.RLock).Release, held(t, NewRWLock(other, "/rw").RLock).Release,
			acquire(t, x, 2).Release, acquire(t, x, 1).Release,
			lockAll(t, mutexes(c, "/a", "/b")...).Release,
			lockOn(t, kept).Release,
			campaigns(t, NewElection(c, "/e"), "x").Resign,
		}
		for _, it := range its {
			releases = append(releases, func() error { return it.Ack(t.Context()) })
		}
		synctest.Wait()
		require.Len(t, h.starts, 13)
		require.Len(t, h.ends, 1)
		require.Equal(t, "/kept", h.ends[0].Path)
		ongoing := map[Hold]bool{}
		for _, e := range h.starts {
			require.NotContains(t, ongoing, e.Hold)
			ongoing[e.Hold] = e.Hold.Ongoing()
		}
		require.False(t, ongoing[h.ends[0].Hold])
		delete(ongoing, h.ends[0].Hold)
		require.NotContains(t, ongoing, Hold{})
		for hold, is := range ongoing {
			require.True(t, is)
			require.True(t, hold.Ongoing())
		}

		h.ends = nil
		for _, release := range releases {
			require.NoError(t, release())
		}
		synctest.Wait()
		require.Len(t, h.ends, 12)
		for _, e := range h.ends {
			require.Contains(t, ongoing, e.Hold)
			require.False(t, e.Hold.Ongoing())
			delete(ongoing, e.Hold)
		}
		require.Empty(t, ongoing)
		require.False(t, Hold{}.Ongoing())
	})
}

// An adapter that is too slow (B75) finds out which of its holds go on.
func TestAHoldWhoseEndWasDroppedIsNotOngoing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		slow := make(chan struct{})
		starts := make(chan TraceHoldStart, 1)
		ended, dropped := false, 0
		var c *Client
		c = w.stranger(&Options{Trace: &Trace{
			HoldStart: func(_ context.Context, e TraceHoldStart) {
				starts <- e
				<-slow
			},
			HoldEnd: func(TraceHoldEnd) { ended = true },
			Session: func(e TraceSession) { dropped += e.Dropped },
		}})
		l := lockOn(t, NewMutex(c, w.path))
		hold := (<-starts).Hold
		for range maxHookCalls {
			hooksOf(c.client).tell(func(int) {})
		}
		require.True(t, hold.Ongoing())
		require.NoError(t, l.Release())
		require.False(t, hold.Ongoing())
		close(slow)
		synctest.Wait()
		require.NoError(t, c.Close())
		synctest.Wait()
		require.False(t, ended)
		require.Equal(t, 1, dropped)
	})
}

func TestTraceTellsThePredecessorOfALock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var h holdsOf
		c, other := w.stranger(&Options{Trace: h.trace()}), w.stranger(nil)
		names := func() (all []string) {
			for _, m := range w.line() {
				all = append(all, m.Name)
			}
			return all
		}

		l := lockOn(t, NewMutex(c, w.path))
		require.Equal(t, []string{""}, h.predecessors(), "a free lock")
		require.NoError(t, l.Release())

		// A waiter between that gives up is not the predecessor: the holder behind which it
		// waited is.
		l = lockOn(t, NewMutex(other, w.path))
		between := w.lockLater(w.stranger(nil))
		a := w.lockLater(c)
		holder := names()[0]
		between.Cancel(nil)
		_, err := between.Wait()
		require.Error(t, err)
		synctest.Wait()
		require.NoError(t, l.Release())
		l = a.Get()
		require.Equal(t, []string{holder}, h.predecessors())
		require.NoError(t, l.Release())

		// It waits in a new session: what it waited for in the last one does not count.
		l = lockOn(t, NewMutex(other, w.path))
		a = w.lockLater(c)
		first := names()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opJoin, For: time.Minute})
		w.srv.Expire(sessionID(c))
		require.NoError(t, l.Release())
		l = a.Get()
		require.NotContains(t, names(), first[1])
		require.Equal(t, []string{""}, h.predecessors())
		require.NoError(t, l.Release())
	})
}

func TestAKeptLockThatIsGrantedAgainIsItsOwnPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var h holdsOf
		c := w.stranger(&Options{Trace: h.trace()})
		l := lockOn(t, NewMutex(w.stranger(nil), w.path))
		holder := w.line()[0].Name
		m := NewMutex(c, w.path, KeepFor(time.Hour))
		a, b := w.waits(m), w.waits(m)
		own := w.line()[1].Name
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.NoError(t, b.Get().Release())
		require.NoError(t, lockOn(t, m).Release())
		require.Equal(t, []string{holder, own, own}, h.predecessors())
	})
}

func TestTraceTellsThePredecessorsOfWritersReadersAndLeadersAndOfNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var h holdsOf
		c, other := w.stranger(&Options{Trace: h.trace()}), w.stranger(nil)
		place := func(l *Lease) string { return l.handle.Grant.Place().Name }

		rw, ours := NewRWLock(other, "/rw"), NewRWLock(c, "/rw")
		writer := held(t, rw.Lock)
		r := later(t, ours.RLock)
		synctest.Wait()
		require.NoError(t, writer.Release())
		reader := r.Get()
		require.Equal(t, []string{place(writer)}, h.predecessors())
		wr := later(t, ours.Lock)
		synctest.Wait()
		require.NoError(t, reader.Release())
		require.NoError(t, wr.Get().Release())
		require.Equal(t, []string{place(reader)}, h.predecessors())

		term := campaigns(t, NewElection(other, "/e"), "x")
		led := campaignLater(t, NewElection(c, "/e"), "y")
		synctest.Wait()
		require.NoError(t, term.Resign())
		led.Get()
		require.Equal(t, []string{place(term.lease)}, h.predecessors())

		x := NewSemaphore(other, "/s", 1)
		slot := acquire(t, x, 1)
		ahead := acquireLater(t, NewSemaphore(other, "/s", 1), 1)
		synctest.Wait()
		s := acquireLater(t, NewSemaphore(c, "/s", 1), 1)
		synctest.Wait()
		require.NoError(t, slot.Release())
		require.NoError(t, ahead.Get().Release())
		s.Get()
		require.Equal(t, []string{""}, h.predecessors())

		q := w.queue(c)
		putOn(t, q, "a", "b")
		_, err := q.TakeN(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, []string{"", ""}, h.predecessors())
	})
}

func TestJoinTracesCallsAllFunctionsInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var order []string
		named := func(name string) *Trace {
			note := func(ctx context.Context, what string) {
				order = append(order, name+" "+what)
				if ctx != nil {
					require.Equal(t, "last's", ctx.Value(traceKey{}))
				}
			}
			return &Trace{
				AcquireStart: func(ctx context.Context, _ TraceAcquireStart) context.Context {
					order = append(order, name+" starts")
					if name == "last" {
						require.Equal(t, "first's", ctx.Value(traceKey{}))
					}
					return context.WithValue(ctx, traceKey{}, name+"'s")
				},
				Queued:     func(ctx context.Context, _ TraceQueued) { note(ctx, "queued") },
				AcquireEnd: func(ctx context.Context, _ TraceAcquireEnd) { note(ctx, "ends") },
				HoldStart:  func(ctx context.Context, _ TraceHoldStart) { note(ctx, "holds") },
				HoldEnd:    func(TraceHoldEnd) { note(nil, "held") },
				Session:    func(e TraceSession) { note(nil, e.State.String()) },
			}
		}
		silent := &Trace{AcquireStart: func(context.Context, TraceAcquireStart) context.Context { return nil }}
		c := w.stranger(&Options{Trace: JoinTraces(nil, named("first"), silent, &Trace{}, named("last"))})
		l := lockOn(t, NewMutex(w.stranger(nil), w.path))
		a := w.lockLater(c)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.NoError(t, c.Close())
		synctest.Wait()
		var want []string
		for _, what := range []string{"connected", "starts", "queued", "ends", "holds", "held", "closed"} {
			want = append(want, "first "+what, "last "+what)
		}
		require.Equal(t, want, order)
	})
}

func TestAFunctionThatPanicsDoesNotKeepTheOthersOfJoinTracesFromBeingCalled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		panics := &Trace{
			AcquireStart: func(context.Context, TraceAcquireStart) context.Context { panic("hook") },
			Queued:       func(context.Context, TraceQueued) { panic("hook") },
			AcquireEnd:   func(context.Context, TraceAcquireEnd) { panic("hook") },
			HoldStart:    func(context.Context, TraceHoldStart) { panic("hook") },
			HoldEnd:      func(TraceHoldEnd) { panic("hook") },
			Session:      func(TraceSession) { panic("hook") },
		}
		var called []string
		note := func(what string) { called = append(called, what) }
		c := w.stranger(&Options{Trace: JoinTraces(panics, &Trace{
			AcquireStart: func(ctx context.Context, _ TraceAcquireStart) context.Context { note("starts"); return ctx },
			Queued:       func(context.Context, TraceQueued) { note("queued") },
			AcquireEnd:   func(context.Context, TraceAcquireEnd) { note("ends") },
			HoldStart:    func(context.Context, TraceHoldStart) { note("holds") },
			HoldEnd:      func(TraceHoldEnd) { note("held") },
			Session:      func(e TraceSession) { note(e.State.String()) },
		})})
		l := lockOn(t, NewMutex(w.stranger(nil), w.path))
		a := w.lockLater(c)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Equal(t, []string{"connected", "starts", "queued", "ends", "holds", "held", "closed"}, called)
	})
}

func TestJoinTracesLeavesUnsetWhatNoneOfThemHas(t *testing.T) {
	require.Equal(t, &Trace{}, JoinTraces())
	require.Equal(t, &Trace{}, JoinTraces(nil, &Trace{}, nil))
	joined := JoinTraces(&Trace{HoldEnd: func(TraceHoldEnd) {}}, nil, &Trace{Session: func(TraceSession) {}})
	set := []bool{joined.AcquireStart != nil, joined.Queued != nil, joined.AcquireEnd != nil, joined.HoldStart != nil, joined.HoldEnd != nil, joined.Session != nil}
	require.Equal(t, slices.Concat(make([]bool, 4), []bool{true, true}), set)
}
