package zkrecipes_test

import (
	"context"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// holdsOf notes what a Trace tells of holds and what came before them. Each Client calls the
// Trace from a goroutine of its own.
type holdsOf struct {
	mu     sync.Mutex
	starts []zkrecipes.TraceHoldStart
	ends   []zkrecipes.TraceHoldEnd
	grants []zkrecipes.TraceAcquireEnd
}

func (h *holdsOf) trace() *zkrecipes.Trace {
	note := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
	}
	return &zkrecipes.Trace{
		AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) {
			note(func() { h.grants = append(h.grants, e) })
		},
		HoldStart: func(_ context.Context, e zkrecipes.TraceHoldStart) {
			note(func() { h.starts = append(h.starts, e) })
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) { note(func() { h.ends = append(h.ends, e) }) },
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var h holdsOf
		opts := &zkrecipes.Options{Trace: h.trace()}
		c, other := w.Stranger(opts), w.Stranger(opts)
		rw := zkrecipes.NewRWLock(c, "/rw")
		x := zkrecipes.NewSemaphore(c, "/s", 3)
		q := w.Queue(c)
		recipetest.PutOn(t, q, "a", "b", "c")
		its, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		kept := zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Hour))
		require.NoError(t, recipetest.LockOn(t, kept).Release())
		releases := []func() error{
			recipetest.Held(t, rw.RLock).Release, recipetest.Held(t, rw.RLock).Release, recipetest.Held(t, zkrecipes.NewRWLock(other, "/rw").RLock).Release,
			recipetest.Acquire(t, x, 2).Release, recipetest.Acquire(t, x, 1).Release,
			recipetest.LockAll(t, recipetest.Mutexes(c, "/a", "/b")...).Release,
			recipetest.LockOn(t, kept).Release,
			recipetest.Campaigns(t, zkrecipes.NewElection(c, "/e"), "x").Resign,
		}
		for _, it := range its {
			releases = append(releases, func() error { return it.Ack(t.Context()) })
		}
		synctest.Wait()
		require.Len(t, h.starts, 13)
		require.Len(t, h.ends, 1)
		require.Equal(t, "/kept", h.ends[0].Path)
		ongoing := map[zkrecipes.Hold]bool{}
		for _, e := range h.starts {
			require.NotContains(t, ongoing, e.Hold)
			ongoing[e.Hold] = e.Hold.Ongoing()
		}
		require.False(t, ongoing[h.ends[0].Hold])
		delete(ongoing, h.ends[0].Hold)
		require.NotContains(t, ongoing, zkrecipes.Hold{})
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
		require.False(t, zkrecipes.Hold{}.Ongoing())
	})
}

// An adapter that is too slow finds out which of its holds go on.
func TestAHoldWhoseEndWasDroppedIsNotOngoing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		slow := make(chan struct{})
		starts := make(chan zkrecipes.TraceHoldStart, 1)
		ended, dropped := false, 0
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{
			HoldStart: func(_ context.Context, e zkrecipes.TraceHoldStart) {
				starts <- e
				<-slow
			},
			HoldEnd: func(zkrecipes.TraceHoldEnd) { ended = true },
			Session: func(e zkrecipes.TraceSession) { dropped += e.Dropped },
		}})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		hold := (<-starts).Hold
		for range zkrecipes.MaxHookCalls {
			zkrecipes.TellHooks(c.Core(), func(int) {})
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var h holdsOf
		c, other := w.Stranger(&zkrecipes.Options{Trace: h.trace()}), w.Stranger(nil)
		names := func() (all []string) {
			for _, m := range w.Line() {
				all = append(all, m.Name)
			}
			return all
		}

		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		require.Equal(t, []string{""}, h.predecessors(), "a free lock")
		require.NoError(t, l.Release())

		// A waiter between that gives up is not the predecessor: the holder behind which it
		// waited is.
		l = recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path))
		between := w.LockLater(w.Stranger(nil))
		a := w.LockLater(c)
		holder := names()[0]
		recipetest.Cancels(t, between)
		synctest.Wait()
		require.NoError(t, l.Release())
		l = a.Get()
		require.Equal(t, []string{holder}, h.predecessors())
		require.NoError(t, l.Release())

		// It waits in a new session: what it waited for in the last one does not count.
		l = recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path))
		a = w.LockLater(c)
		first := names()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Minute})
		w.Srv.Expire(recipetest.SessionID(c))
		require.NoError(t, l.Release())
		l = a.Get()
		require.NotContains(t, names(), first[1])
		require.Equal(t, []string{""}, h.predecessors())
		require.NoError(t, l.Release())
	})
}

func TestAKeptLockThatIsGrantedAgainIsItsOwnPredecessor(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var h holdsOf
		c := w.Stranger(&zkrecipes.Options{Trace: h.trace()})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		holder := w.Line()[0].Name
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		a, b := w.Waits(m), w.Waits(m)
		own := w.Line()[1].Name
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.NoError(t, b.Get().Release())
		require.NoError(t, recipetest.LockOn(t, m).Release())
		require.Equal(t, []string{holder, own, own}, h.predecessors())
	})
}

func TestTraceTellsThePredecessorsOfWritersReadersAndLeadersAndOfNobodyElse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var h holdsOf
		c, other := w.Stranger(&zkrecipes.Options{Trace: h.trace()}), w.Stranger(nil)
		place := func(guard *zk.CheckVersionRequest) string { return path.Base(guard.Path) }

		rw, ours := zkrecipes.NewRWLock(other, "/rw"), zkrecipes.NewRWLock(c, "/rw")
		writer := recipetest.Held(t, rw.Lock)
		r := recipetest.Later(t, ours.RLock)
		synctest.Wait()
		require.NoError(t, writer.Release())
		reader := r.Get()
		require.Equal(t, []string{place(writer.Check())}, h.predecessors())
		wr := recipetest.Later(t, ours.Lock)
		synctest.Wait()
		require.NoError(t, reader.Release())
		require.NoError(t, wr.Get().Release())
		require.Equal(t, []string{place(reader.Check())}, h.predecessors())

		term := recipetest.Campaigns(t, zkrecipes.NewElection(other, "/e"), "x")
		led := recipetest.CampaignLater(t, zkrecipes.NewElection(c, "/e"), "y")
		synctest.Wait()
		require.NoError(t, term.Resign())
		led.Get()
		require.Equal(t, []string{place(term.Checks()[0])}, h.predecessors())

		x := zkrecipes.NewSemaphore(other, "/s", 1)
		slot := recipetest.Acquire(t, x, 1)
		ahead := recipetest.AcquireLater(t, zkrecipes.NewSemaphore(other, "/s", 1), 1)
		synctest.Wait()
		s := recipetest.AcquireLater(t, zkrecipes.NewSemaphore(c, "/s", 1), 1)
		synctest.Wait()
		require.NoError(t, slot.Release())
		require.NoError(t, ahead.Get().Release())
		s.Get()
		require.Equal(t, []string{""}, h.predecessors())

		q := w.Queue(c)
		recipetest.PutOn(t, q, "a", "b")
		_, err := q.TakeN(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, []string{"", ""}, h.predecessors())
	})
}

// noting is a Trace of which each function calls note with its context, if it has one.
func noting(note func(what string, ctx context.Context)) *zkrecipes.Trace {
	return &zkrecipes.Trace{
		AcquireStart: func(ctx context.Context, _ zkrecipes.TraceAcquireStart) context.Context {
			note("starts", ctx)
			return ctx
		},
		Queued:     func(ctx context.Context, _ zkrecipes.TraceQueued) { note("queued", ctx) },
		AcquireEnd: func(ctx context.Context, _ zkrecipes.TraceAcquireEnd) { note("ends", ctx) },
		HoldStart:  func(ctx context.Context, _ zkrecipes.TraceHoldStart) { note("holds", ctx) },
		HoldEnd:    func(zkrecipes.TraceHoldEnd) { note("held", nil) },
		Session:    func(e zkrecipes.TraceSession) { note(e.State.String(), nil) },
	}
}

// One whose functions panic keeps no other one from being called, and its context from being used.
func TestJoinTracesCallsAllFunctionsInTheirOrder(t *testing.T) {
	for _, panics := range []*zkrecipes.Trace{nil, noting(func(string, context.Context) { panic("hook") })} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			var mu sync.Mutex // AcquireStart is called by the caller's goroutine
			var order, values []string
			named := func(name string) *zkrecipes.Trace {
				trace := noting(func(what string, ctx context.Context) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name+" "+what)
					if ctx != nil {
						value, _ := ctx.Value(traceKey{}).(string)
						values = append(values, value)
					}
				})
				start := trace.AcquireStart
				trace.AcquireStart = func(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
					return context.WithValue(start(ctx, e), traceKey{}, name+"'s")
				}
				return trace
			}
			silent := &zkrecipes.Trace{AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context { return nil }}
			c := w.Stranger(&zkrecipes.Options{Trace: zkrecipes.JoinTraces(panics, named("first"), silent, panics, &zkrecipes.Trace{}, named("last"), panics)})
			synctest.Wait() // it is told that it is connected
			l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
			a := w.LockLater(c)
			require.NoError(t, l.Release())
			require.NoError(t, a.Get().Release())
			require.NoError(t, c.Close())
			synctest.Wait()
			var want []string
			for _, what := range []string{"connected", "starts", "queued", "ends", "holds", "held", "closed"} {
				want = append(want, "first "+what, "last "+what)
			}
			require.Equal(t, want, order)
			require.Equal(t, append([]string{"", "first's"}, slices.Repeat([]string{"last's"}, 6)...), values)
		})
	}
}

func TestJoinTracesLeavesUnsetWhatNoneOfThemHas(t *testing.T) {
	require.Equal(t, &zkrecipes.Trace{}, zkrecipes.JoinTraces())
	require.Equal(t, &zkrecipes.Trace{}, zkrecipes.JoinTraces(nil, &zkrecipes.Trace{}, nil))
	joined := zkrecipes.JoinTraces(&zkrecipes.Trace{HoldEnd: func(zkrecipes.TraceHoldEnd) {}}, nil, &zkrecipes.Trace{Session: func(zkrecipes.TraceSession) {}})
	set := []bool{joined.AcquireStart != nil, joined.Queued != nil, joined.AcquireEnd != nil, joined.HoldStart != nil, joined.HoldEnd != nil, joined.Session != nil}
	require.Equal(t, slices.Concat(make([]bool, 4), []bool{true, true}), set)
}
