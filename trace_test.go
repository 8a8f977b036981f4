package zkrecipes_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// traceKey is the key of a value that a test's AcquireStart puts into the context.
type traceKey struct{}

func TestContextOfAcquireStartReachesTheOtherFunctionsAndNothingElse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var values []any
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{
			AcquireStart: func(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
				require.Equal(t, zkrecipes.TraceAcquireStart{Recipe: zkrecipes.RecipeMutex, Path: "/line", Op: "lock"}, e)
				require.Equal(t, "call's", ctx.Value(traceKey{}))
				ctx, cancel := context.WithCancel(context.WithValue(context.Background(), traceKey{}, "hook's"))
				cancel() // the call goes on
				return ctx
			},
			Queued:     func(ctx context.Context, _ zkrecipes.TraceQueued) { values = append(values, ctx.Value(traceKey{})) },
			AcquireEnd: func(ctx context.Context, _ zkrecipes.TraceAcquireEnd) { values = append(values, ctx.Value(traceKey{})) },
			HoldStart:  func(ctx context.Context, _ zkrecipes.TraceHoldStart) { values = append(values, ctx.Value(traceKey{})) },
		}})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "call's"))
		time.AfterFunc(time.Second, func() { l.Release() })
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
			require.Equal(t, "call's", ctx.Value(traceKey{}))
			require.NoError(t, ctx.Err())
			return nil
		}))
		synctest.Wait()
		require.Equal(t, []any{"hook's", "hook's", "hook's"}, values)

		// Nor does the hook's context keep the call's from ending.
		l = recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		time.AfterFunc(time.Second, cancel)
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release())
	})
}

func TestWithoutAContextOfAcquireStartTheCallsOwnIsUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for _, start := range []func(context.Context, zkrecipes.TraceAcquireStart) context.Context{
			nil,
			func(context.Context, zkrecipes.TraceAcquireStart) context.Context { return nil },
			func(context.Context, zkrecipes.TraceAcquireStart) context.Context { panic("hook") },
		} {
			var value any
			c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{
				AcquireStart: start,
				AcquireEnd:   func(ctx context.Context, _ zkrecipes.TraceAcquireEnd) { value = ctx.Value(traceKey{}) },
			}})
			ctx := context.WithValue(t.Context(), traceKey{}, "call's")
			require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(ctx, recipetest.Nothing))
			synctest.Wait()
			require.Equal(t, "call's", value)
		}
	})
}

func TestAPanicOfAcquireStartIsLogged(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var mu sync.Mutex
		var records []slog.Record
		c := w.Stranger(&zkrecipes.Options{
			Logger: slog.New(keptRecords{slog.DiscardHandler, &mu, &records}),
			Trace:  &zkrecipes.Trace{AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context { panic("hook") }},
		})
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing))
		synctest.Wait()
		i := slices.IndexFunc(records, func(r slog.Record) bool { return r.Message == zkrecipes.TracePanicked })
		require.GreaterOrEqual(t, i, 0)
		records[i].Attrs(func(a slog.Attr) bool {
			require.Equal(t, slog.Any("panic", "hook"), a)
			return true
		})
	})
}

func TestAcquireStartIsCalledBeforeAnythingIsSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		started, goOn := make(chan struct{}), make(chan struct{})
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context {
			started <- struct{}{}
			<-goOn
			return nil
		}}})
		for _, call := range []func() error{
			func() error { return zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing) },
			func() error {
				return zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Second)).Do(t.Context(), recipetest.Nothing)
			},
			func() error { _, err := zkrecipes.NewRWLock(c, "/rw").TryRLock(t.Context()); return err },
			func() error {
				_, err := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{MaxLen: 3}).Put(t.Context(), nil)
				return err
			},
			func() error { _, err := zkrecipes.NewQueue(c, "/q", nil).Take(t.Context()); return err },
			func() error { _, err := zkrecipes.NewSemaphore(c, "/s", 3).Acquire(t.Context()); return err },
			func() error { _, err := zkrecipes.NewElection(c, "/e").Campaign(t.Context(), nil); return err },
			func() error { _, err := zkrecipes.NewBarrier(c, "/b", 1).Wait(t.Context()); return err },
			func() error { _, err := zkrecipes.NewDoubleBarrier(c, "/d", 1).Enter(t.Context()); return err },
			func() error { return zkrecipes.NewGate(c, "/g").Wait(t.Context()) },
		} {
			time.Sleep(2 * time.Second) // a barrier's member has left
			done := make(chan error)
			require.Empty(t, w.Requests(func() {
				go func() { done <- call() }()
				<-started
			}))
			goOn <- struct{}{}
			require.NoError(t, <-done)
		}
	})
}

// A slow function does not falsify what it is told.
func TestTraceTellsTimesOfTheEvents(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var queued []zkrecipes.TraceQueued
		var ends []zkrecipes.TraceAcquireEnd
		var starts []zkrecipes.TraceHoldStart
		var holds []zkrecipes.TraceHoldEnd
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{
			AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context {
				time.Sleep(time.Second)
				return nil
			},
			Queued: func(_ context.Context, e zkrecipes.TraceQueued) {
				time.Sleep(time.Hour)
				queued = append(queued, e)
			},
			AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) { ends = append(ends, e) },
			HoldStart:  func(_ context.Context, e zkrecipes.TraceHoldStart) { starts = append(starts, e) },
			HoldEnd:    func(e zkrecipes.TraceHoldEnd) { holds = append(holds, e) },
		}})
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		before := w.LockLater(w.Stranger(nil))
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { holder.Release() })
		time.AfterFunc(7*time.Second, func() { before.Get().Release() })
		predecessor := w.Line()[1].Name
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		place, hold := recipetest.HandleOf(l).Grant.Place().Name, zkrecipes.HoldOf(recipetest.HandleOf(l).Grant)
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Release())
		time.Sleep(2 * time.Hour)
		synctest.Wait()

		at := func(d time.Duration) time.Time { return began.Add(d) }
		require.Equal(t, []zkrecipes.TraceQueued{{
			Time: at(time.Second), Recipe: zkrecipes.RecipeMutex, Path: w.Path, Op: "lock", Session: recipetest.SessionID(c), Place: place, Ahead: 2,
		}}, queued)
		require.Equal(t, []zkrecipes.TraceAcquireEnd{{
			Time: at(7 * time.Second), Recipe: zkrecipes.RecipeMutex, Path: w.Path, Op: "lock", Wait: 7 * time.Second, Ahead: 2,
			Session: recipetest.SessionID(c), Place: place, Token: l.Token(), Predecessor: predecessor,
		}}, ends)
		require.Equal(t, []zkrecipes.TraceHoldStart{{
			Time: at(7 * time.Second), Recipe: zkrecipes.RecipeMutex, Path: w.Path, Op: "lock",
			Session: recipetest.SessionID(c), Place: place, Token: l.Token(), Hold: hold,
		}}, starts)
		require.Equal(t, []zkrecipes.TraceHoldEnd{{
			Time: at(10 * time.Second), Recipe: zkrecipes.RecipeMutex, Path: w.Path, Op: "lock",
			Session: recipetest.SessionID(c), Place: place, Token: l.Token(), Hold: hold, Held: 3 * time.Second,
		}}, holds)
	})
}

// An adapter that counts by what the Trace tells, as metrics do.
func TestTraceCountsWhatIsPendingAndWhatIsHeld(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var mu sync.Mutex
		pending, active := 0, 0
		add := func(to *int, n int) {
			mu.Lock()
			defer mu.Unlock()
			*to += n
		}
		c := w.Stranger(&zkrecipes.Options{Prefix: "/app", Trace: &zkrecipes.Trace{
			AcquireStart: func(context.Context, zkrecipes.TraceAcquireStart) context.Context { add(&pending, 1); return nil },
			AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) {
				add(&pending, -1)
				if e.Token != 0 {
					add(&active, 1)
				}
			},
			HoldEnd: func(e zkrecipes.TraceHoldEnd) { add(&active, -1) },
		}})
		are := func(p, a int) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, []int{p, a}, []int{pending, active})
		}
		q := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{Workers: 3})
		free := make(chan struct{})
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			served <- q.Serve(ctx, func(context.Context, *zkrecipes.Item) error { <-free; return nil })
		}()
		are(3, 0)
		recipetest.PutOn(t, zkrecipes.NewQueue(c, "/q", nil), "a", "b")
		are(1, 2)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/line"))
		a := recipetest.LockLater(t, zkrecipes.NewMutex(c, "/line"))
		are(2, 3)
		waits := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 2))
		are(3, 3)
		close(free)
		are(5, 1)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(&zkrecipes.Options{Prefix: "/app"}), "/b", 2)).Get()
		waits.Get()
		are(3, 0)
		cancel()
		require.NoError(t, <-served)
		are(0, 0)
	})
}

func TestTraceTellsTheStatesOfSessions(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var all []zkrecipes.TraceSession
		c := w.Stranger(&zkrecipes.Options{SessionTimeout: 8 * time.Second, Trace: &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { all = append(all, e) }}})
		first := recipetest.SessionID(c)
		next := func(state zkrecipes.SessionState, id int64, server string) zkrecipes.TraceSession {
			t.Helper()
			synctest.Wait()
			require.NotEmpty(t, all)
			e := all[0]
			all = all[1:]
			require.Equal(t, state, e.State)
			require.Equal(t, id, e.ID)
			require.Equal(t, server, e.Server)
			require.Equal(t, 8*time.Second, e.Timeout)
			return e
		}
		e := next(zkrecipes.SessionConnected, first, w.Srv.Addr())
		require.NoError(t, e.Err)
		require.Equal(t, time.Now(), e.Time)
		time.Sleep(time.Hour)
		left := time.Until(e.ValidUntil())
		require.Positive(t, left, "of now, not of the event")
		require.LessOrEqual(t, left, e.Timeout)

		w.Away(c)
		require.Error(t, next(zkrecipes.SessionDisconnected, first, w.Srv.Addr()).Err)
		time.Sleep(9 * time.Second)
		require.Negative(t, time.Until(e.ValidUntil()))
		w.Back()
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, next(zkrecipes.SessionExpired, first, "").Err, zkrecipes.ErrLost)
		require.Zero(t, e.ValidUntil())
		second := recipetest.SessionID(c)
		require.NotEqual(t, first, second)
		next(zkrecipes.SessionConnected, second, w.Srv.Addr())
		require.Empty(t, all)

		require.NoError(t, c.Close())
		require.NoError(t, next(zkrecipes.SessionClosed, second, "").Err)
		require.Empty(t, all)
	})
}

// A clean stop is no disconnection, for neither Trace nor Logger.
func TestAClientThatIsClosedWhileConnectedTellsNoDisconnection(t *testing.T) {
	for name, end := range map[string]func(*zkrecipes.Client) error{
		"Close":    (*zkrecipes.Client).Close,
		"Shutdown": func(c *zkrecipes.Client) error { return c.Shutdown(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				opts, log := recipetest.Logged()
				var states []zkrecipes.SessionState
				opts.Trace = &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { states = append(states, e.State) }}
				c := w.Stranger(opts)
				id := fmt.Sprintf("0x%x", recipetest.SessionID(c))
				require.NoError(t, end(c))
				synctest.Wait()
				require.Equal(t, []zkrecipes.SessionState{zkrecipes.SessionConnected, zkrecipes.SessionClosed}, states)
				require.Equal(t, []string{"INFO session up " + id, "INFO session closed " + id}, log.Sessions(t))
			})
		})
	}
}

func TestAClientThatIsClosedWhileDisconnectedTellsWhatItDid(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		var states []zkrecipes.SessionState
		opts.Trace = &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { states = append(states, e.State) }}
		c := w.Stranger(opts)
		id := fmt.Sprintf("0x%x", recipetest.SessionID(c))
		w.Away(c)
		require.ErrorIs(t, c.Close(), zkrecipes.ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, []zkrecipes.SessionState{zkrecipes.SessionConnected, zkrecipes.SessionDisconnected, zkrecipes.SessionClosed}, states)
		require.Equal(t, []string{"INFO session up " + id, "WARN connection lost " + id}, log.Sessions(t))
	})
}

// A session that the server does not close, though the client is connected, is logged.
func TestAClientWhoseServerDoesNotCloseTheSessionLogsIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		c := w.Stranger(opts)
		id := fmt.Sprintf("0x%x", recipetest.SessionID(c))
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "closeSession"})
		require.ErrorIs(t, c.Close(), zkrecipes.ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, []string{"INFO session up " + id, "WARN session not closed " + id}, log.Sessions(t))
	})
}

// A Client that is closed while it is disconnected tells that the session is left behind.
func TestTraceTellsThatASessionWasNotClosed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var last zkrecipes.TraceSession
		c := w.Stranger(&zkrecipes.Options{Trace: &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { last = e }}})
		w.Away(c)
		require.ErrorIs(t, c.Close(), zkrecipes.ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, zkrecipes.SessionClosed, last.State)
		require.ErrorIs(t, last.Err, zkrecipes.ErrSessionNotClosed)
	})
}

func TestSessionStatesHaveNames(t *testing.T) {
	var names []string
	for s := range 6 {
		names = append(names, zkrecipes.SessionState(s).String())
	}
	require.Equal(t, []string{"SessionState(0)", "connected", "disconnected", "expired", "closed", "SessionState(5)"}, names)
	require.Zero(t, zkrecipes.TraceSession{}.ValidUntil())
}

// With a Trace that follows no acquisitions, nothing is kept of them. With one, no request
// is sent for it.
func TestTraceCostsNothingUnlessItIsSet(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(&zkrecipes.Options{Trace: &zkrecipes.Trace{Session: func(zkrecipes.TraceSession) {}}})
		ctx := t.Context()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			inner, traced := zkrecipes.StartAcquire(ctx, recipetest.Core(c), zkrecipes.RecipeMutex, w.Path, "lock")
			zkrecipes.AcquisitionIn(inner, recipetest.Core(c)).Queued(nil, 1)
			traced.End(nil, nil)
		}))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		require.False(t, recipetest.TellsEnd(recipetest.HandleOf(l).Grant))
		require.NoError(t, l.Release())

		r := recipetest.NewTracer(t)
		traced := w.Client(&zkrecipes.Options{Trace: r.Trace()})
		requests := func(c *zkrecipes.Client) map[string]int {
			return w.Requests(func() { require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(ctx, recipetest.Nothing)) })
		}
		require.Equal(t, requests(c), requests(traced))
	}, zktest.TickTime(time.Minute))
}
