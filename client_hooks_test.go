package zkrecipes_test

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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
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

// The first call of the hook blocks, and panics, and so does each record
func TestSlowAndPanickingHooksHoldUpNobody(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		free := make(chan struct{})
		var once sync.Once
		var released []zkrecipes.TraceHoldEnd
		c := w.Stranger(&zkrecipes.Options{Logger: slog.New(slowHandler{slog.DiscardHandler, free}), Trace: &zkrecipes.Trace{
			AcquireEnd: func(context.Context, zkrecipes.TraceAcquireEnd) {
				<-free
				once.Do(func() { panic("hook") })
			},
			HoldEnd: func(e zkrecipes.TraceHoldEnd) { released = append(released, e) },
		}})
		l := w.Holds(c)
		w.Srv.Expire(recipetest.SessionID(c)) // which is logged
		<-l.Context(t.Context()).Done()
		for range 3 {
			require.NoError(t, w.Holds(c).Release())
		}
		require.Empty(t, released)
		close(free)
		synctest.Wait()
		require.Len(t, released, 4, "none is lost to the panic")
		for i, e := range released {
			require.Equal(t, w.Path, e.Path)
			require.NotZero(t, e.Session)
			require.True(t, i == 0 || e.Token > released[i-1].Token, "in order")
		}
	})
}

// Hooks, and functions given to Do, lock and close
func TestHooksAndFunctionsMayCallTheLibrary(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		var c *zkrecipes.Client
		var once sync.Once
		called := make(chan error, 2)
		c = w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{HoldEnd: func(zkrecipes.TraceHoldEnd) {
			once.Do(func() {
				called <- w.Ours(c, w.Path).Do(t.Context(), recipetest.Nothing)
				called <- c.Close()
			})
		}}})
		require.NoError(t, w.Ours(c, w.Path).Do(t.Context(), recipetest.Nothing))
		require.NoError(t, <-called)
		require.NoError(t, <-called)

		other := w.Stranger(nil)
		require.ErrorIs(t, w.Ours(other, w.Path).Do(t.Context(), func(ctx context.Context, l *zkrecipes.Lease) error {
			context.AfterFunc(ctx, func() { other.Close() })
			return other.Close()
		}), zkrecipes.ErrClosed)
	})
}

// absent is a place that has no znode.
type absent struct{ *line.Place }

func (absent) Delete(bool, hold.BeginFunc) error { return nil }

func TestTraceTellsAGrantBeforeItsEnd(t *testing.T) {
	t.Parallel()
	const grants = 1000
	told := make(chan string, 2*grants+1)
	c := recipetest.Dial(t, &zkrecipes.Options{Trace: recipetest.TraceOf(func(what string, e recipetest.TracedEvent) {
		if what == "granted" || what == "lost" {
			told <- what + " " + e.Place
		}
	})})
	s, _ := c.Core().Session()
	l := zkrecipes.NewMutex(c, harness.NewPath(t)).Line()

	for i := range grants {
		_, traced := zkrecipes.StartAcquire(t.Context(), c.Core(), zkrecipes.RecipeMutex, l.Path, "lock")
		p := &line.Place{Line: l, Znode: hold.Znode{Session: s, Path: fmt.Sprint(l.Abs(), "/", i), Czxid: 1}}
		p.Become(absent{p})
		g, err := p.Grant(t.Context())
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.End(errs.Lost(errors.New("test")))
		}()
		if i%2 == 0 { // else both may happen at once
			<-ended
		}
		traced.End(g, nil)
		<-ended
	}
	granted := map[string]bool{}
	for range 2 * grants {
		var e string
		select {
		case e = <-told:
		case <-time.After(time.Minute):
			require.FailNow(t, "the end of a grant is not told")
		}
		if name, ok := strings.CutPrefix(e, "lost "); ok {
			require.True(t, granted[name], "the end of grant %s is told before the grant", name)
		} else {
			granted[strings.TrimPrefix(e, "granted ")] = true
		}
	}
}

func TestEventsThatAHangingHookCannotTakeAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 100_000
		var log recipetest.Warnings
		h := zkrecipes.NewHooks(log.Verbose())
		free := make(chan struct{})
		var told []zkrecipes.TraceHoldEnd
		tell := func(token zkrecipes.Token) {
			h.Tell(func(dropped int) {
				<-free
				told = append(told, zkrecipes.TraceHoldEnd{Token: token, Dropped: dropped})
			})
		}
		before := recipetest.HeldHeap()
		for i := range events {
			tell(zkrecipes.Token(i))
			if i%10 == 0 {
				h.Log(slog.LevelInfo, "record")
			}
		}
		require.Less(t, recipetest.HeldHeap()-before, int64(4<<20))
		close(free)
		synctest.Wait()
		require.Less(t, len(told), zkrecipes.MaxHookCalls)
		for i, e := range told {
			require.Equal(t, zkrecipes.Token(i), e.Token)
			require.Zero(t, e.Dropped)
		}

		tell(events)
		tell(events + 1)
		synctest.Wait()
		last := told[len(told)-2:]
		require.Equal(t, events, len(told)-2+last[0].Dropped, "each event is told or counted")
		require.Zero(t, last[1].Dropped)
		records := log.With("level=")
		warning := records[len(records)-1]
		require.Contains(t, warning, "level=WARN")
		require.Contains(t, warning, fmt.Sprintf(" dropped_events=%d dropped_records=%d\n", last[0].Dropped, events/10-len(records)+1))
	})
}

func TestARecordHasTheTimeAndTheSourceOfItsEventHoweverLateItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := zkrecipes.NewHooks(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{AddSource: true})))
		h.Tell(func(int) { time.Sleep(time.Hour) })
		now := time.Now()
		h.Log(slog.LevelInfo, "record")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Contains(t, log.String(), now.Format("time=2006-01-02T15:04:05.000Z07:00"))
		require.Contains(t, log.String(), "client_hooks_test.go:")
	})
}

// What was dropped is told at its place: between the events that were told before and
// after it.
func TestDroppedEventsAreToldWhereTheyAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := zkrecipes.NewHooks(nil)
		next := make(chan struct{})
		var told []zkrecipes.TraceHoldEnd
		token := zkrecipes.Token(0)
		tell := func(n int) {
			for range n {
				token++
				e := zkrecipes.TraceHoldEnd{Token: token}
				h.Tell(func(dropped int) {
					<-next
					e.Dropped = dropped
					told = append(told, e)
				})
			}
			synctest.Wait()
		}
		tell(1) // is called, and hangs
		tell(zkrecipes.MaxHookCalls + 5)
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
			require.Equal(t, zkrecipes.Token(e.Dropped)+1, e.Token-told[i].Token)
		}
		require.Equal(t, token, told[len(told)-1].Token)
		require.Less(t, len(told), int(token))
	})
}

// A test that fails in a function ends its goroutine.
func TestTraceGoesOnAfterAFunctionHasEndedTheGoroutine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		granted := 0
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{AcquireEnd: func(context.Context, zkrecipes.TraceAcquireEnd) {
			if granted++; granted == 1 {
				runtime.Goexit()
			}
		}}})
		for range 3 {
			require.NoError(t, recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock).Release())
		}
		synctest.Wait()
		require.Equal(t, 3, granted)
	})
}
