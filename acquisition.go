package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/hooks"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// tracing is a Client's Trace, and what calls its functions.
type tracing struct {
	*hooks.Caller
	trace    Trace
	acquires bool // a function of the trace follows acquisitions
}

func newTracing(logger *slog.Logger, trace *Trace) *tracing {
	t := &tracing{Caller: hooks.New(logger)}
	if trace != nil {
		t.trace = *trace
	}
	t.acquires = t.trace.AcquireStart != nil || t.trace.Queued != nil || t.trace.AcquireEnd != nil ||
		t.trace.HoldStart != nil || t.trace.HoldEnd != nil
	return t
}

// tracingOf returns that of a Client.
func tracingOf(c *session.Client) *tracing { return session.Attached[tracing](c, nil) }

// acquisition is a call that is reported to the Trace, from its start to its end. The nil
// acquisition reports nothing: there is no Trace.
type acquisition struct {
	*tracing
	// ctx is for the Trace's functions.
	ctx   context.Context
	what  TraceAcquireStart
	began time.Time
	ahead atomic.Int64
}

// startAcquire begins an acquisition. The context that it returns is for the rest of the
// call. It must not reach functions of the user's.
func startAcquire(ctx context.Context, c *session.Client, of Recipe, path, op string) (context.Context, *acquisition) {
	t := tracingOf(c)
	if !t.acquires {
		return ctx, nil
	}
	a := &acquisition{tracing: t, ctx: ctx, what: TraceAcquireStart{Recipe: of, Path: path, Op: op}, began: time.Now()}
	if t.trace.AcquireStart != nil { // which is the user's
		var panicked any
		if a.ctx, panicked = hooks.Start(ctx, t.trace.AcquireStart, a.what); panicked != nil {
			t.LogPanic(panicked)
		}
	}
	return line.WithQueuedHook(ctx, a), a
}

// tracedLease is untracedLease with a Trace.
func (r lock) tracedLease(ctx context.Context, op string, k layout.Kind, grant grantFunc, held heldFunc) (*Lease, error) {
	ctx, traced := startAcquire(ctx, r.Client, Recipe(r.Recipe), r.Path, op)
	l, err := r.untracedLease(ctx, op, k, grant, held)
	if err != nil {
		traced.end(nil, err)
		return nil, err
	}
	traced.end(l.handle.Grant, nil)
	return l, nil
}

func (a *acquisition) Queued(p *line.Place, ahead int) {
	a.ahead.Store(int64(ahead))
	f := a.trace.Queued
	if f == nil {
		return
	}
	e := TraceQueued{
		Time: time.Now(), Recipe: a.what.Recipe, Path: a.what.Path, Op: a.what.Op,
		Session: p.Session.ID(), Place: p.Name, Ahead: ahead,
	}
	if a.tellsPredecessor() {
		e.Predecessor = p.WaitedFor
	}
	a.Tell(func(dropped int) {
		e.Dropped = dropped
		f(a.ctx, e)
	})
}

// tellsPredecessor reports whether the place ahead of one that waits holds, or waits to hold.
func (a *acquisition) tellsPredecessor() bool {
	switch a.what.Recipe {
	case RecipeMutex, RecipeRWLock, RecipeElection:
		return true
	}
	return false
}

// predecessor returns the name of the znode that held before, if that is known.
func (a *acquisition) predecessor(g *hold.Grant) string {
	if !a.tellsPredecessor() {
		return ""
	}
	p := line.PlaceOf(g)
	if g.Token != hold.TokenOf(p.Czxid, 0) { // a kept place is granted again
		return p.Name
	}
	return p.WaitedFor
}

// end reports the end of the acquisition. g is what it got, nil if nothing is held, and
// from here on the end of the grant is reported.
func (a *acquisition) end(g *hold.Grant, err error) {
	if a == nil {
		return
	}
	e := TraceAcquireEnd{
		Time: time.Now(), Recipe: a.what.Recipe, Path: a.what.Path, Op: a.what.Op,
		Ahead: int(a.ahead.Load()), Err: err,
	}
	e.Wait = e.Time.Sub(a.began)
	if g == nil || err != nil {
		a.tellEnd(e)
		return
	}
	// Its end is reported after this.
	g.Tell(func() func(error, bool) {
		e.Session, e.Place, e.Token = g.Session.ID(), g.Name(), Token(g.Token)
		e.Predecessor = a.predecessor(g)
		a.tellEnd(e)
		a.tellHoldStart(g, e)
		if a.trace.HoldEnd == nil {
			return nil
		}
		t, what, since := a.tracing, a.what, e.Time // and not the call's context
		return func(why error, downgraded bool) { t.tellHoldEnd(g, what, since, why, downgraded) }
	})
}

func (a *acquisition) tellEnd(e TraceAcquireEnd) {
	f := a.trace.AcquireEnd
	if f == nil {
		return
	}
	a.Tell(func(dropped int) {
		e.Dropped = dropped
		f(a.ctx, e)
	})
}

// tellHoldStart reports that a hold begins with the end of its acquisition.
func (a *acquisition) tellHoldStart(g *hold.Grant, end TraceAcquireEnd) {
	f := a.trace.HoldStart
	if f == nil {
		return
	}
	e := TraceHoldStart{
		Time: end.Time, Recipe: end.Recipe, Path: end.Path, Op: end.Op,
		Session: end.Session, Place: end.Place, Token: end.Token, Hold: Hold{g.Over},
	}
	a.Tell(func(dropped int) {
		e.Dropped = dropped
		f(a.ctx, e)
	})
}

// tellHoldEnd reports that a grant has ended that an acquisition got at that time.
func (t *tracing) tellHoldEnd(g *hold.Grant, what TraceAcquireStart, since time.Time, why error, downgraded bool) {
	e := TraceHoldEnd{
		Time: time.Now(), Recipe: what.Recipe, Path: what.Path, Op: what.Op,
		Session: g.Session.ID(), Place: g.Name(), Token: Token(g.Token), Hold: Hold{g.Over},
	}
	e.Held = e.Time.Sub(since)
	if downgraded {
		e.Op = "downgrade"
	}
	if !errors.Is(why, ErrReleased) {
		e.Err = fail("hold", e.Path, why)
	}
	f := t.trace.HoldEnd
	t.Tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}

// tellSession reports that the state of a session has changed.
func (t *tracing) tellSession(s *session.Session, state session.State, server string, err error) {
	f := t.trace.Session
	if f == nil {
		return
	}
	e := TraceSession{
		Time: time.Now(), State: SessionState(state), ID: s.ID(), Server: server, Timeout: s.Timeout(), Err: err,
		validUntil: s.KnownUntil,
	}
	switch state {
	case session.RolledBack:
		e.State, e.RolledBack = SessionConnected, true
	case session.Refused:
		e.State, e.Refused = SessionDisconnected, true
	}
	t.Tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}
