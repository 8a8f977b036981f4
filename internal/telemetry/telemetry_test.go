package telemetry_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry"
	"github.com/zkrecipes/zkrecipes/internal/telemetry/telemetrytest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// measured is what a Meter's Config is told.
type measured struct {
	telemetry.Series
	d     time.Duration
	error string
}

// rig is a Meter in a bubble, and what it has measured.
type rig struct {
	telemetrytest.World
	*telemetry.Meter
	mu sync.Mutex

	acquired, held []measured
}

// inBubble runs f with a Meter.
func inBubble(t *testing.T, path func(string) string, f func(t *testing.T, r *rig)) {
	telemetrytest.InBubble(t, func(t *testing.T, w telemetrytest.World) {
		r := &rig{World: w}
		r.Meter = telemetry.New(telemetry.Config{
			Path: path,
			Acquired: func(_ context.Context, s telemetry.Series, d time.Duration, err error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.acquired = append(r.acquired, measured{s, d, telemetry.ErrorType(err)})
			},
			Held: func(s telemetry.Series, d time.Duration, err error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.held = append(r.held, measured{s, d, telemetry.ErrorType(err)})
			},
		})
		f(t, r)
	})
}

// figures returns those of now, sorted, once the Trace is at rest.
func (r *rig) figures() telemetry.Figures {
	synctest.Wait()
	f := r.Figures()
	for _, all := range [][]telemetry.Open{f.Waits, f.Holds} {
		slices.SortFunc(all, func(a, b telemetry.Open) int {
			return cmp.Or(cmp.Compare(a.Recipe, b.Recipe), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Path, b.Path))
		})
	}
	slices.SortFunc(f.Queues, func(a, b telemetry.Queue) int { return cmp.Compare(a.Path, b.Path) })
	return f
}

func lock(t *testing.T, m *zkrecipes.Mutex) *zkrecipes.Lease {
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	return l
}

func TestWhatHasNotEndedIsCountedAndTheOldestIsTimed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		mutex := func(waits, holds int, wait, hold time.Duration) {
			t.Helper()
			s := telemetry.Series{Recipe: "mutex", Op: "lock"}
			f := r.figures()
			require.Equal(t, []telemetry.Open{{Series: s, Count: waits, Oldest: wait}}, f.Waits)
			require.Equal(t, []telemetry.Open{{Series: s, Count: holds, Oldest: hold}}, f.Holds)
		}
		require.Empty(t, r.figures().Waits)
		a := lock(t, zkrecipes.NewMutex(c, "/a"))
		time.Sleep(time.Minute)
		b := lock(t, zkrecipes.NewMutex(c, "/b"))
		mutex(0, 2, 0, time.Minute)

		var waits sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		waits.Go(func() {
			_, err := zkrecipes.NewMutex(c, "/a").Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Minute)
		waits.Go(func() { require.NoError(t, lock(t, zkrecipes.NewMutex(c, "/a")).Release()) })
		time.Sleep(time.Minute)
		mutex(2, 2, 2*time.Minute, 3*time.Minute)
		cancel()
		mutex(1, 2, time.Minute, 3*time.Minute)
		require.NoError(t, a.Release())
		mutex(0, 1, 0, 2*time.Minute)
		require.NoError(t, b.Release())
		mutex(0, 0, 0, 0)
		waits.Wait()
	})
}

// Also of read leases, slots, kept locks, items, terms: see TestEachHoldHasAHoldOfItsOwn.. of
// the root.
func TestHoldsOfOnePathAreToldApart(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		rw := zkrecipes.NewRWLock(c, "/rw")
		first, err := rw.RLock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		second, err := rw.RLock(t.Context())
		require.NoError(t, err)
		read := telemetry.Series{Recipe: "rwlock", Op: "read lock"}
		require.NoError(t, second.Release())
		require.Equal(t, []telemetry.Open{{Series: read, Count: 1, Oldest: time.Hour}}, r.figures().Holds)
		require.NoError(t, first.Release())
		require.Equal(t, []telemetry.Open{{Series: read}}, r.figures().Holds)

		// A lease that was downgraded goes on as what it began as.
		w, err := rw.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.Downgrade(t.Context()))
		time.Sleep(time.Minute)
		write := telemetry.Series{Recipe: "rwlock", Op: "lock"}
		require.Equal(t, []telemetry.Open{{Series: write, Count: 1, Oldest: time.Minute}, {Series: read}}, r.figures().Holds)
		require.NoError(t, w.Release())
		require.Equal(t, []telemetry.Open{{Series: write}, {Series: read}}, r.figures().Holds)
	})
}

func TestAcquisitionsAndHoldsAreMeasuredAtTheirEnd(t *testing.T) {
	inBubble(t, func(path string) string { return map[string]string{"/a": "a\xff"}[path] }, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		m := zkrecipes.NewMutex(c, "/a")
		l := lock(t, m)
		_, err := m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.Lock(late)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Release())
		l = lock(t, zkrecipes.NewMutex(c, "/b"))
		time.Sleep(time.Second)
		r.Srv.Expire(r.Srv.Sessions()[0].ID)
		<-l.Context(t.Context()).Done()
		synctest.Wait()

		a := telemetry.Series{Recipe: "mutex", Op: "lock", Path: "a\uFFFD"}
		b := telemetry.Series{Recipe: "mutex", Op: "lock"}
		require.Equal(t, []measured{
			{a, 0, ""}, {telemetry.Series{Recipe: "mutex", Op: "try lock", Path: a.Path}, 0, "locked"},
			{a, time.Minute, "deadline_exceeded"}, {b, 0, ""},
		}, r.acquired)
		require.Equal(t, []measured{{a, time.Minute, ""}, {b, time.Second, "lost"}}, r.held)
	})
}

func TestTheSessionIsFollowed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		require.Zero(t, r.figures().Session)
		c := r.Dial(r.Trace())
		is := func(state zkrecipes.SessionState, reconnects, expirations int) telemetry.Session {
			t.Helper()
			s := r.figures().Session
			require.Equal(t, []any{state, reconnects, expirations}, []any{s.State, s.Reconnects, s.Expirations})
			return s
		}
		s := is(zkrecipes.SessionConnected, 0, 0)
		require.Positive(t, s.Validity)
		time.Sleep(time.Hour)
		s = is(zkrecipes.SessionConnected, 0, 0)
		require.Positive(t, s.Validity, "of now")
		require.LessOrEqual(t, s.Validity, 10*time.Second)

		require.True(t, r.Srv.Disconnect(c.Status().Session))
		time.Sleep(2 * time.Second)
		is(zkrecipes.SessionConnected, 1, 0)

		r.Srv.Stop()
		s = is(zkrecipes.SessionDisconnected, 1, 0)
		require.Positive(t, s.Validity)
		time.Sleep(time.Hour)
		require.Zero(t, is(zkrecipes.SessionDisconnected, 1, 0).Validity)
		r.Srv.Restart()
		time.Sleep(time.Minute)
		first := c.Status().Session
		r.Srv.Expire(first)
		time.Sleep(time.Minute)
		require.NotEqual(t, first, c.Status().Session)
		before := r.figures().Session
		require.Equal(t, zkrecipes.SessionConnected, before.State)
		require.Positive(t, before.Expirations)
		require.Zero(t, before.Refusals)
		r.Srv.Plan().Add(zktest.Fault{Do: zktest.Answer, Op: "getEphemerals", Code: -124, Times: 2}) // requires SASL
		require.True(t, r.Srv.Disconnect(c.Status().Session))
		time.Sleep(5 * time.Second)
		is(zkrecipes.SessionConnected, before.Reconnects+1, before.Expirations)
		require.Equal(t, 2, r.figures().Session.Refusals)
		before.Reconnects++
		require.NoError(t, c.Close())
		require.Zero(t, is(zkrecipes.SessionClosed, before.Reconnects, before.Expirations).Validity)
	})
}

// A rollback is told from a goroutine of its own.
func TestARollbackThatIsToldLateIsNoStateOfTheSession(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	tell := m.Trace().Session
	tell(zkrecipes.TraceSession{State: zkrecipes.SessionConnected, ID: 1})
	tell(zkrecipes.TraceSession{State: zkrecipes.SessionDisconnected, ID: 1})
	tell(zkrecipes.TraceSession{State: zkrecipes.SessionConnected, ID: 1, RolledBack: true})
	require.Equal(t, telemetry.Session{State: zkrecipes.SessionDisconnected}, m.Figures().Session)
	tell(zkrecipes.TraceSession{State: zkrecipes.SessionConnected, ID: 1})
	require.Equal(t, telemetry.Session{State: zkrecipes.SessionConnected, Reconnects: 1}, m.Figures().Session)
}

func TestAWaitIsNotShownForEverIfAnotherTracePanics(t *testing.T) {
	panics := &zkrecipes.Trace{AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context { panic("hook") }}
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for _, trace := range []*zkrecipes.Trace{zkrecipes.JoinTraces(panics, r.Trace()), zkrecipes.JoinTraces(r.Trace(), panics)} {
			require.NoError(t, lock(t, zkrecipes.NewMutex(r.Dial(trace), "/a")).Release())
			require.Equal(t, []telemetry.Open{{Series: telemetry.Series{Recipe: "mutex", Op: "lock"}}}, r.figures().Waits)
		}
	})
}

// The functions beside it are too slow. What was dropped is counted, and neither a wait nor
// a hold stays for ever because its end was dropped.
func TestWhatEndsWithoutAWordIsNotShown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		slow := make(chan struct{})
		hangs := &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) {
			if e.State == zkrecipes.SessionConnected && e.Dropped == 0 {
				<-slow
			}
		}}
		c := r.Dial(zkrecipes.JoinTraces(hangs, r.Trace()))
		close(slow)
		goesOn := lock(t, zkrecipes.NewMutex(c, "/goes/on"))
		ends := lock(t, zkrecipes.NewMutex(c, "/ends"))
		var waits sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		waits.Go(func() {
			_, err := zkrecipes.NewMutex(c, "/goes/on").Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
		})
		s := telemetry.Series{Recipe: "mutex", Op: "lock"}
		require.Equal(t, []telemetry.Open{{Series: s, Count: 1}}, r.figures().Waits)
		require.Equal(t, []telemetry.Open{{Series: s, Count: 2}}, r.figures().Holds)

		slow = make(chan struct{})
		require.True(t, r.Srv.Disconnect(c.Status().Session))
		time.Sleep(2 * time.Second) // connected again, which hangs
		tries := zkrecipes.NewMutex(c, "/goes/on")
		for range 10_000 { // fill the queue
			_, err := tries.TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		}
		cancel()
		waits.Wait()
		require.NoError(t, ends.Release())
		close(slow)
		synctest.Wait()
		_, err := tries.TryLock(t.Context()) // tells of the drops
		require.ErrorIs(t, err, zkrecipes.ErrLocked)

		f := r.figures()
		require.Equal(t, 2, f.Dropped)
		require.Equal(t, []telemetry.Open{{Series: s}, {Series: telemetry.Series{Recipe: "mutex", Op: "try lock"}}}, f.Waits)
		require.Equal(t, []telemetry.Open{{Series: s, Count: 1, Oldest: 2 * time.Second}}, f.Holds)
		require.NoError(t, goesOn.Release())
	})
}
