package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Callbacks that are slow, that panic, or that call the library.

type slowHandler struct {
	slog.Handler
	free chan struct{}
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.free
	panic("logger")
}

func TestB41ASlowLoggerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	r := newRig(t, &Options{Logger: slog.New(slowHandler{slog.DiscardHandler, free})})
	l := r.lock()
	r.p.Expire()
	<-l.Context(r.ctx).Done()
	require.NoError(t, r.m.Do(r.ctx, nothing))
	close(free)
}

func TestB41SlowAndPanickingHooksHoldUpNobody(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			free := make(chan struct{})
			var once sync.Once
			released := make(chan TraceHoldEnd, 10)
			r := side.rig(t, &Options{Trace: &Trace{
				AcquireEnd: func(context.Context, TraceAcquireEnd) {
					<-free
					once.Do(func() { panic("hook") })
				},
				HoldEnd: func(e TraceHoldEnd) { released <- e },
			}})
			for range 3 { // while the first hook blocks
				require.NoError(t, r.m.Do(r.ctx, nothing))
			}
			require.Empty(t, released)
			close(free)
			var last Token
			for range 4 { // including the one when the rig was set up; in order, and none lost to the panic
				e := <-released
				require.Greater(t, e.Token, last)
				require.Equal(t, r.path, e.Path)
				require.NotZero(t, e.Session)
				last = e.Token
			}
		})
	}
}

func TestB57HooksAndFunctionsMayCallTheLibrary(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var r *sideRig
			ready := make(chan struct{})
			locked, closed := make(chan error, 1), make(chan error, 1)
			var once sync.Once
			opts := &Options{Trace: &Trace{HoldEnd: func(TraceHoldEnd) {
				once.Do(func() {
					<-ready
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					locked <- r.m.Do(ctx, nothing)
					closed <- r.c.Close()
				})
			}}}
			r = side.rig(t, opts)
			close(ready)
			require.NoError(t, harness.Receive(t, locked))
			require.NoError(t, harness.Receive(t, closed))

			other := side.rig(t, nil)
			err := other.m.Do(other.ctx, func(ctx context.Context, l *Lease) error {
				context.AfterFunc(ctx, func() { other.c.Close() })
				return other.c.Close()
			})
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

func TestTraceTellsAGrantBeforeItsEnd(t *testing.T) {
	t.Parallel()
	const grants = 6000
	told := make(chan string, 2*grants+1)
	c := dial(t, &Options{Trace: traceOf(func(what string, e tracedEvent) {
		if what == "granted" || what == "lost" {
			told <- what + " " + e.Place
		}
	})})
	s, _ := c.client.Session()
	l := lineOf(NewMutex(c, harness.NewPath(t)))

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends the grants as soon as the session has them
		defer close(stopped)
		for {
			s.EndGrants(line.Lost(errors.New("test")))
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for i := range grants {
		_, traced := StartAcquire(t.Context(), c.client, RecipeMutex, l.Path, "lock")
		p := &line.Place{PlaceName: line.PlaceName{Name: fmt.Sprint(i)}, Line: l, Session: s, Path: fmt.Sprint(l.Abs(), "/", i), Czxid: 1}
		p.Release = func(bool, line.BeginFunc) error { return nil } // there is no such znode
		g, err := line.NewGrant(p)
		require.NoError(t, err)
		traced.End(g, nil)
		<-g.Over
	}
	close(stop)
	<-stopped
	granted := map[string]bool{}
	for range 2 * grants {
		var e string
		select {
		case e = <-told:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "the end of a grant is not told")
		}
		if name, ok := strings.CutPrefix(e, "lost "); ok {
			require.True(t, granted[name], "the end of grant %s is told before the grant", name)
		} else {
			granted[strings.TrimPrefix(e, "granted ")] = true
		}
	}
}

// keptRecords is a handler that keeps the records.
type keptRecords struct {
	slog.Handler
	mu  *sync.Mutex
	all *[]slog.Record
}

func (h keptRecords) Enabled(context.Context, slog.Level) bool { return true }

func (h keptRecords) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.all = append(*h.all, r)
	return nil
}

func TestB75EventsThatAHangingHookCannotTakeAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 100_000
		var mu sync.Mutex
		var records []slog.Record
		h := NewHooks(slog.New(keptRecords{slog.DiscardHandler, &mu, &records}))
		free := make(chan struct{})
		var told []TraceHoldEnd
		granted := func(e TraceHoldEnd) {
			<-free
			told = append(told, e)
		}
		tell := func(token Token) {
			h.Tell(func(dropped int) { granted(TraceHoldEnd{Token: token, Dropped: dropped}) })
		}
		before := heldHeap()
		for i := range events {
			tell(Token(i))
			if i%10 == 0 {
				h.Log(slog.LevelInfo, "record")
			}
		}
		require.Less(t, heldHeap()-before, int64(4<<20))
		close(free)
		synctest.Wait()
		require.Less(t, len(told), MaxHookCalls)
		for i, e := range told {
			require.Equal(t, Token(i), e.Token)
			require.Zero(t, e.Dropped)
		}

		tell(events)
		tell(events + 1)
		synctest.Wait()
		last := told[len(told)-2:]
		require.Equal(t, events, len(told)-2+last[0].Dropped, "each event is told or counted")
		require.Zero(t, last[1].Dropped)
		warning := records[len(records)-1]
		require.Equal(t, slog.LevelWarn, warning.Level)
		counted := map[string]int64{}
		warning.Attrs(func(a slog.Attr) bool { counted[a.Key] = a.Value.Int64(); return true })
		require.Equal(t, int64(last[0].Dropped), counted["dropped_events"])
		require.Equal(t, int64(events/10-len(records)+1), counted["dropped_records"])
	})
}

// What was dropped is told at its place: between the events that were told before and
// after it.
func TestB75DroppedEventsAreToldWhereTheyAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHooks(nil)
		next := make(chan struct{})
		var told []TraceHoldEnd
		token := Token(0)
		tell := func(n int) {
			for range n {
				token++
				e := TraceHoldEnd{Token: token}
				h.Tell(func(dropped int) {
					<-next
					e.Dropped = dropped
					told = append(told, e)
				})
			}
			synctest.Wait()
		}
		tell(1) // is called, and hangs
		tell(MaxHookCalls + 5)
		for range 100 { // as it takes some, some have room again
			next <- struct{}{}
			next <- struct{}{}
			synctest.Wait()
			tell(3)
		}
		close(next)
		synctest.Wait()
		tell(1)
		for i, e := range told[1:] {
			require.Equal(t, Token(e.Dropped)+1, e.Token-told[i].Token)
		}
		require.Equal(t, token, told[len(told)-1].Token)
		require.Less(t, len(told), int(token))
	})
}

// A test that fails in a function ends its goroutine.
func TestTraceGoesOnAfterAFunctionHasEndedTheGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		granted := 0
		c := w.stranger(&Options{Trace: &Trace{AcquireEnd: func(context.Context, TraceAcquireEnd) {
			if granted++; granted == 1 {
				runtime.Goexit()
			}
		}}})
		for range 3 {
			require.NoError(t, held(t, NewMutex(c, w.path).Lock).Release())
		}
		synctest.Wait()
		require.Equal(t, 3, granted)
	})
}
