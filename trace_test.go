package zkrecipes_test

import (
	"context"
	"fmt"
	"path"
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
		require.ErrorIs(t, errOf(zkrecipes.NewMutex(c, w.Path).Lock)(ctx), context.Canceled)
		require.NoError(t, l.Release())
	})
}

// A panic of it is logged.
func TestWithoutAContextOfAcquireStartTheCallsOwnIsUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for name, start := range map[string]func(context.Context, zkrecipes.TraceAcquireStart) context.Context{
			"unset":  nil,
			"none":   func(context.Context, zkrecipes.TraceAcquireStart) context.Context { return nil },
			"panics": func(context.Context, zkrecipes.TraceAcquireStart) context.Context { panic("hook") },
		} {
			var value any
			var log recipetest.Warnings
			c := w.Stranger(&zkrecipes.Options{Logger: log.Logger(), Trace: &zkrecipes.Trace{
				AcquireStart: start,
				AcquireEnd:   func(ctx context.Context, _ zkrecipes.TraceAcquireEnd) { value = ctx.Value(traceKey{}) },
			}})
			ctx := context.WithValue(t.Context(), traceKey{}, "call's")
			require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(ctx, recipetest.Nothing))
			synctest.Wait()
			require.Equal(t, "call's", value, name)
			if warnings := log.With(zkrecipes.TracePanicked); name == "panics" {
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], " panic=hook\n")
			} else {
				require.Empty(t, warnings)
			}
		}
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
		bounded := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{MaxLen: 3})
		for _, call := range []func(context.Context) error{
			errOf(zkrecipes.NewMutex(c, w.Path).Lock),
			errOf(zkrecipes.NewMutex(c, "/kept", zkrecipes.KeepFor(time.Second)).Lock),
			errOf(zkrecipes.NewRWLock(c, "/rw").TryRLock),
			get(bounded.Put, nil),
			errOf(bounded.Take),
			errOf(zkrecipes.NewSemaphore(c, "/s", 3).Acquire),
			get(zkrecipes.NewElection(c, "/e").Campaign, nil),
			errOf(zkrecipes.NewBarrier(c, "/b", 1).Wait),
			errOf(zkrecipes.NewDoubleBarrier(c, "/d", 1).Enter),
			zkrecipes.NewGate(c, "/g").Wait,
		} {
			time.Sleep(2 * time.Second) // a barrier's member has left
			done := make(chan error)
			require.Empty(t, w.Requests(func() {
				go func() { done <- call(t.Context()) }()
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
		place, hold := path.Base(l.Check().Path), zkrecipes.HoldOf(l.Grant())
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Release())
		time.Sleep(2 * time.Hour)
		synctest.Wait()

		at := func(d time.Duration) time.Time { return began.Add(d) }
		require.Equal(t, []zkrecipes.TraceQueued{{
			Time: at(time.Second), Recipe: zkrecipes.RecipeMutex, Path: w.Path, Op: "lock", Session: recipetest.SessionID(c), Place: place, Predecessor: predecessor, Ahead: 2,
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

// What Trace and Logger are told of the end of a client. A clean stop is no disconnection.
func TestTheEndOfAClientIsTold(t *testing.T) {
	withheld := func(w *recipetest.World, c *zkrecipes.Client) error {
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "closeSession"})
		return c.Close()
	}
	const up, down, over = zkrecipes.SessionConnected, zkrecipes.SessionDisconnected, zkrecipes.SessionClosed
	type end struct {
		end    func(*recipetest.World, *zkrecipes.Client) error
		err    error
		states []zkrecipes.SessionState
		log    []string
	}
	recipetest.EachInBubble(t, map[string]end{
		"Close":        {func(_ *recipetest.World, c *zkrecipes.Client) error { return c.Close() }, nil, []zkrecipes.SessionState{up, over}, []string{"INFO session up", "INFO session closed"}},
		"Shutdown":     {func(_ *recipetest.World, c *zkrecipes.Client) error { return c.Shutdown(t.Context()) }, nil, []zkrecipes.SessionState{up, over}, []string{"INFO session up", "INFO session closed"}},
		"disconnected": {func(w *recipetest.World, c *zkrecipes.Client) error { w.Away(c); return c.Close() }, zkrecipes.ErrSessionNotClosed, []zkrecipes.SessionState{up, down, over}, []string{"INFO session up", "WARN connection lost"}},
		"not answered": {withheld, zkrecipes.ErrSessionNotClosed, nil, []string{"INFO session up", "WARN session not closed"}},
	}, func(t *testing.T, w *recipetest.World, tt end) {
		opts, log := recipetest.Logged()
		var states []zkrecipes.SessionState
		var last zkrecipes.TraceSession
		opts.Trace = &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { states, last = append(states, e.State), e }}
		c := w.Stranger(opts)
		id := fmt.Sprintf(" 0x%x", recipetest.SessionID(c))
		require.ErrorIs(t, tt.end(w, c), tt.err)
		synctest.Wait()
		if tt.states != nil {
			require.Equal(t, tt.states, states)
		}
		require.ErrorIs(t, last.Err, tt.err)
		require.Equal(t, []string{tt.log[0] + id, tt.log[1] + id}, log.Sessions(t))
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
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			_, traced := zkrecipes.StartAcquire(ctx, c.Core(), zkrecipes.RecipeMutex, w.Path, "lock")
			traced.End(l.Grant(), nil)
		}))
		require.NoError(t, l.Release())

		r := recipetest.NewTracer(t)
		traced := w.Client(&zkrecipes.Options{Trace: r.Trace()})
		requests := func(c *zkrecipes.Client) map[string]int {
			return w.Requests(func() { require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(ctx, recipetest.Nothing)) })
		}
		require.Equal(t, requests(c), requests(traced))
	}, zktest.TickTime(time.Minute))
}
