package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/zktest"
)

// traceKey is the key of a value that a test's AcquireStart puts into the context.
type traceKey struct{}

func TestContextOfAcquireStartReachesTheOtherFunctionsAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var values []any
		c := w.stranger(&Options{Trace: &Trace{
			AcquireStart: func(ctx context.Context, e TraceAcquireStart) context.Context {
				require.Equal(t, TraceAcquireStart{Recipe: RecipeMutex, Path: "/line", Op: "lock"}, e)
				require.Equal(t, "call's", ctx.Value(traceKey{}))
				ctx, cancel := context.WithCancel(context.WithValue(context.Background(), traceKey{}, "hook's"))
				cancel() // the call goes on
				return ctx
			},
			Queued:     func(ctx context.Context, _ TraceQueued) { values = append(values, ctx.Value(traceKey{})) },
			AcquireEnd: func(ctx context.Context, _ TraceAcquireEnd) { values = append(values, ctx.Value(traceKey{})) },
		}})
		l := lockOn(t, NewMutex(w.stranger(nil), w.path))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "call's"))
		time.AfterFunc(time.Second, func() { l.Release() })
		require.NoError(t, NewMutex(c, w.path).Do(ctx, func(ctx context.Context, l *Lease) error {
			require.Equal(t, "call's", ctx.Value(traceKey{}))
			require.NoError(t, ctx.Err())
			return nil
		}))
		synctest.Wait()
		require.Equal(t, []any{"hook's", "hook's"}, values)

		// Nor does the hook's context keep the call's from ending.
		l = lockOn(t, NewMutex(w.stranger(nil), w.path))
		time.AfterFunc(time.Second, cancel)
		_, err := NewMutex(c, w.path).Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release())
	})
}

func TestWithoutAContextOfAcquireStartTheCallsOwnIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, start := range []func(context.Context, TraceAcquireStart) context.Context{
			nil,
			func(context.Context, TraceAcquireStart) context.Context { return nil },
			func(context.Context, TraceAcquireStart) context.Context { panic("hook") },
		} {
			var value any
			c := w.stranger(&Options{Trace: &Trace{
				AcquireStart: start,
				AcquireEnd:   func(ctx context.Context, _ TraceAcquireEnd) { value = ctx.Value(traceKey{}) },
			}})
			ctx := context.WithValue(t.Context(), traceKey{}, "call's")
			require.NoError(t, NewMutex(c, w.path).Do(ctx, nothing))
			synctest.Wait()
			require.Equal(t, "call's", value)
		}
	})
}

func TestAPanicOfAcquireStartIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var records []slog.Record
		c := w.stranger(&Options{
			Logger: slog.New(keptRecords{slog.DiscardHandler, &mu, &records}),
			Trace:  &Trace{AcquireStart: func(context.Context, TraceAcquireStart) context.Context { panic("hook") }},
		})
		require.NoError(t, NewMutex(c, w.path).Do(t.Context(), nothing))
		synctest.Wait()
		i := slices.IndexFunc(records, func(r slog.Record) bool { return r.Message == TracePanicked })
		require.GreaterOrEqual(t, i, 0)
		records[i].Attrs(func(a slog.Attr) bool {
			require.Equal(t, slog.Any("panic", "hook"), a)
			return true
		})
	})
}

func TestAcquireStartIsCalledBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		started, goOn := make(chan struct{}), make(chan struct{})
		c := w.stranger(&Options{Trace: &Trace{AcquireStart: func(context.Context, TraceAcquireStart) context.Context {
			started <- struct{}{}
			<-goOn
			return nil
		}}})
		for _, call := range []func() error{
			func() error { return NewMutex(c, w.path).Do(t.Context(), nothing) },
			func() error { return NewMutex(c, w.path, KeepFor(time.Second)).Do(t.Context(), nothing) },
			func() error { _, err := NewRWLock(c, "/rw").TryRLock(t.Context()); return err },
			func() error { _, err := NewQueue(c, "/q", &QueueOptions{MaxLen: 3}).Put(t.Context(), nil); return err },
			func() error { _, err := NewQueue(c, "/q", nil).Take(t.Context()); return err },
			func() error { _, err := NewSemaphore(c, "/s", 3).Acquire(t.Context()); return err },
			func() error { _, err := NewElection(c, "/e").Campaign(t.Context(), nil); return err },
			func() error { _, err := NewBarrier(c, "/b", 1).Wait(t.Context()); return err },
			func() error { _, err := NewDoubleBarrier(c, "/d", 1).Enter(t.Context()); return err },
			func() error { return NewGate(c, "/g").Wait(t.Context()) },
		} {
			time.Sleep(2 * time.Second) // a barrier's member has left
			done := make(chan error)
			require.Empty(t, w.requests(func() {
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
	inBubble(t, func(t *testing.T, w *world) {
		var queued []TraceQueued
		var ends []TraceAcquireEnd
		var holds []TraceHoldEnd
		c := w.stranger(&Options{Trace: &Trace{
			AcquireStart: func(context.Context, TraceAcquireStart) context.Context {
				time.Sleep(time.Second)
				return nil
			},
			Queued: func(_ context.Context, e TraceQueued) {
				time.Sleep(time.Hour)
				queued = append(queued, e)
			},
			AcquireEnd: func(_ context.Context, e TraceAcquireEnd) { ends = append(ends, e) },
			HoldEnd:    func(e TraceHoldEnd) { holds = append(holds, e) },
		}})
		holder := lockOn(t, NewMutex(w.stranger(nil), w.path))
		before := w.lockLater(w.stranger(nil))
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { holder.Release() })
		time.AfterFunc(7*time.Second, func() { before.Get().Release() })
		l := held(t, NewMutex(c, w.path).Lock)
		place := l.handle.Grant.Place().Name
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Release())
		time.Sleep(2 * time.Hour)
		synctest.Wait()

		at := func(d time.Duration) time.Time { return began.Add(d) }
		require.Equal(t, []TraceQueued{{
			Time: at(time.Second), Recipe: RecipeMutex, Path: w.path, Op: "lock", Session: sessionID(c), Place: place, Ahead: 2,
		}}, queued)
		require.Equal(t, []TraceAcquireEnd{{
			Time: at(7 * time.Second), Recipe: RecipeMutex, Path: w.path, Op: "lock", Wait: 7 * time.Second, Ahead: 2,
			Session: sessionID(c), Place: place, Token: l.Token(),
		}}, ends)
		require.Equal(t, []TraceHoldEnd{{
			Time: at(10 * time.Second), Recipe: RecipeMutex, Path: w.path, Op: "lock",
			Session: sessionID(c), Place: place, Token: l.Token(), Held: 3 * time.Second,
		}}, holds)
	})
}

// An adapter that counts by what the Trace tells, as metrics do.
func TestTraceCountsWhatIsPendingAndWhatIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		pending, active := 0, 0
		add := func(to *int, n int) {
			mu.Lock()
			defer mu.Unlock()
			*to += n
		}
		c := w.stranger(&Options{Prefix: "/app", Trace: &Trace{
			AcquireStart: func(context.Context, TraceAcquireStart) context.Context { add(&pending, 1); return nil },
			AcquireEnd: func(_ context.Context, e TraceAcquireEnd) {
				add(&pending, -1)
				if e.Token != 0 {
					add(&active, 1)
				}
			},
			HoldEnd: func(e TraceHoldEnd) { add(&active, -1) },
		}})
		are := func(p, a int) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, []int{p, a}, []int{pending, active})
		}
		q := NewQueue(c, "/q", &QueueOptions{Workers: 3})
		free := make(chan struct{})
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			served <- q.Serve(ctx, func(context.Context, *Item) error { <-free; return nil })
		}()
		are(3, 0)
		putOn(t, NewQueue(c, "/q", nil), "a", "b")
		are(1, 2)
		l := lockOn(t, NewMutex(c, "/line"))
		a := lockLater(t, NewMutex(c, "/line"))
		are(2, 3)
		waits := waitLater(t, NewBarrier(c, "/b", 2))
		are(3, 3)
		close(free)
		are(5, 1)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		waitLater(t, NewBarrier(w.stranger(&Options{Prefix: "/app"}), "/b", 2)).Get()
		waits.Get()
		are(3, 0)
		cancel()
		require.NoError(t, <-served)
		are(0, 0)
	})
}

func TestTraceTellsTheStatesOfSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var all []TraceSession
		c := w.stranger(&Options{SessionTimeout: 8 * time.Second, Trace: &Trace{Session: func(e TraceSession) { all = append(all, e) }}})
		first := sessionID(c)
		next := func(state SessionState, id int64, server string) TraceSession {
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
		e := next(SessionConnected, first, w.srv.Addr())
		require.NoError(t, e.Err)
		require.Equal(t, time.Now(), e.Time)
		time.Sleep(time.Hour)
		left := time.Until(e.ValidUntil())
		require.Positive(t, left, "of now, not of the event")
		require.LessOrEqual(t, left, e.Timeout)

		w.away(c)
		require.Error(t, next(SessionDisconnected, first, w.srv.Addr()).Err)
		time.Sleep(9 * time.Second)
		require.Negative(t, time.Until(e.ValidUntil()))
		w.back()
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, next(SessionExpired, first, "").Err, ErrLost)
		require.Zero(t, e.ValidUntil())
		second := sessionID(c)
		require.NotEqual(t, first, second)
		next(SessionConnected, second, w.srv.Addr())
		require.Empty(t, all)

		require.NoError(t, c.Close())
		require.NoError(t, next(SessionClosed, second, "").Err)
		require.Empty(t, all)
	})
}

// A clean stop is no disconnection, for neither Trace nor Logger.
func TestAClientThatIsClosedWhileConnectedTellsNoDisconnection(t *testing.T) {
	for name, end := range map[string]func(*Client) error{
		"Close":    (*Client).Close,
		"Shutdown": func(c *Client) error { return c.Shutdown(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				opts, log := logged()
				var states []SessionState
				opts.Trace = &Trace{Session: func(e TraceSession) { states = append(states, e.State) }}
				c := w.stranger(opts)
				id := fmt.Sprintf("0x%x", sessionID(c))
				require.NoError(t, end(c))
				synctest.Wait()
				require.Equal(t, []SessionState{SessionConnected, SessionClosed}, states)
				require.Equal(t, []string{"INFO session up " + id, "INFO session closed " + id}, log.sessions(t))
			})
		})
	}
}

func TestAClientThatIsClosedWhileDisconnectedTellsWhatItDid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		var states []SessionState
		opts.Trace = &Trace{Session: func(e TraceSession) { states = append(states, e.State) }}
		c := w.stranger(opts)
		id := fmt.Sprintf("0x%x", sessionID(c))
		w.away(c)
		require.ErrorIs(t, c.Close(), ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, []SessionState{SessionConnected, SessionDisconnected, SessionClosed}, states)
		require.Equal(t, []string{"INFO session up " + id, "WARN connection lost " + id}, log.sessions(t))
	})
}

// A session that the server does not close, though the client is connected, is logged.
func TestAClientWhoseServerDoesNotCloseTheSessionLogsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		c := w.stranger(opts)
		id := fmt.Sprintf("0x%x", sessionID(c))
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "closeSession"})
		require.ErrorIs(t, c.Close(), ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, []string{"INFO session up " + id, "WARN session not closed " + id}, log.sessions(t))
	})
}

// A Client that is closed while it is disconnected tells that the session is left behind.
func TestTraceTellsThatASessionWasNotClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var last TraceSession
		c := w.stranger(&Options{Trace: &Trace{Session: func(e TraceSession) { last = e }}})
		w.away(c)
		require.ErrorIs(t, c.Close(), ErrSessionNotClosed)
		synctest.Wait()
		require.Equal(t, SessionClosed, last.State)
		require.ErrorIs(t, last.Err, ErrSessionNotClosed)
	})
}

func TestSessionStatesHaveNames(t *testing.T) {
	var names []string
	for s := range 6 {
		names = append(names, SessionState(s).String())
	}
	require.Equal(t, []string{"SessionState(0)", "connected", "disconnected", "expired", "closed", "SessionState(5)"}, names)
	require.Zero(t, TraceSession{}.ValidUntil())
}

// With a Trace that follows no acquisitions, nothing is kept of them. With one, no request
// is sent for it.
func TestTraceCostsNothingUnlessItIsSet(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(&Options{Trace: &Trace{Session: func(TraceSession) {}}})
		ctx := t.Context()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			inner, traced := StartAcquire(ctx, c.client, RecipeMutex, w.path, "lock")
			AcquisitionIn(inner, c.client).Queued(nil, 1)
			traced.End(nil, nil)
		}))
		l := lockOn(t, NewMutex(c, w.path))
		require.Nil(t, l.handle.Grant.TellEnd)
		require.NoError(t, l.Release())

		r := newTracer(t)
		traced := w.client(&Options{Trace: r.trace()})
		requests := func(c *Client) map[string]int {
			return w.requests(func() { require.NoError(t, NewMutex(c, w.path).Do(ctx, nothing)) })
		}
		require.Equal(t, map[string]int{opJoin: 1, opRelease: 1}, requests(c))
		require.Equal(t, requests(c), requests(traced))
	}, zktest.TickTime(time.Minute))
}
