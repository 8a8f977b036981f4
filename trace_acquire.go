package zkrecipes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// acquisition is a call that is reported to the Trace, from its start to its end. The nil
// acquisition reports nothing: there is no Trace.
type acquisition struct {
	hooks *hooks
	ctx   context.Context // for the Trace's functions
	what  TraceAcquireStart
	began time.Time
	ahead atomic.Int64
}

// startAcquire begins an acquisition. The context that it returns is for the rest of the
// call. It must not reach functions of the user's.
func startAcquire(ctx context.Context, c *client, recipe Recipe, path, op string) (context.Context, *acquisition) {
	h := hooksOf(c)
	if !h.acquires {
		return ctx, nil
	}
	a := &acquisition{hooks: h, ctx: ctx, what: TraceAcquireStart{Recipe: recipe, Path: path, Op: op}, began: time.Now()}
	if traced := h.acquireStart(ctx, a.what); traced != nil {
		a.ctx = traced
	}
	return withWaiter(ctx, a), a
}

// acquireStart calls Trace.AcquireStart, which is the user's.
func (h *hooks) acquireStart(ctx context.Context, e TraceAcquireStart) context.Context {
	if h.trace.AcquireStart == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			h.logPanic(p)
		}
	}()
	return h.trace.AcquireStart(ctx, e)
}

// acquisitionIn returns the acquisition of the call whose context ctx is.
func acquisitionIn(ctx context.Context, c *client) *acquisition {
	if !hooksOf(c).acquires {
		return nil
	}
	a, _ := waiterIn(ctx).(*acquisition)
	return a
}

func (a *acquisition) Queued(p *place, ahead int) {
	if a == nil {
		return
	}
	a.ahead.Store(int64(ahead))
	f := a.hooks.trace.Queued
	if f == nil {
		return
	}
	e := TraceQueued{
		Time: time.Now(), Recipe: a.what.Recipe, Path: a.what.Path, Op: a.what.Op,
		Session: p.s.ID(), Place: p.name, Ahead: ahead,
	}
	a.hooks.tell(func(dropped int) {
		e.Dropped = dropped
		f(a.ctx, e)
	})
}

// end reports the end of the acquisition. g is what it got, nil if nothing is held, and
// from here on the end of the grant is reported.
func (a *acquisition) end(g *grant, err error) {
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
	// The grant cannot end before g.mu is free. So its end is reported after this.
	g.mu.Lock()
	defer g.mu.Unlock()
	e.Session, e.Place, e.Token = g.s.ID(), g.place().name, Token(g.token)
	a.tellEnd(e)
	if a.hooks.trace.HoldEnd == nil {
		return
	}
	h, what, since := a.hooks, a.what, e.Time // and not the call's context
	g.tellEnd = func() { h.tellHoldEnd(g, what, since) }
	if g.err != nil { // before the caller had it
		g.noteEnd()
	}
}

func (a *acquisition) tellEnd(e TraceAcquireEnd) {
	f := a.hooks.trace.AcquireEnd
	if f == nil {
		return
	}
	a.hooks.tell(func(dropped int) {
		e.Dropped = dropped
		f(a.ctx, e)
	})
}

// tellHoldEnd reports that a grant has ended that an acquisition got at that time. g.mu must be
// held.
func (h *hooks) tellHoldEnd(g *grant, what TraceAcquireStart, since time.Time) {
	e := TraceHoldEnd{
		Time: time.Now(), Recipe: what.Recipe, Path: what.Path, Op: what.Op,
		Session: g.s.ID(), Place: g.place().name, Token: Token(g.token),
	}
	e.Held = e.Time.Sub(since)
	if g.downgraded {
		e.Op = "downgrade"
	}
	if !errors.Is(g.err, ErrReleased) {
		e.Err = fail("hold", e.Path, g.err)
	}
	f := h.trace.HoldEnd
	h.tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}

// tellSession reports that the state of a session has changed.
func (h *hooks) tellSession(s *session, state sessionState, server string, err error) {
	f := h.trace.Session
	if f == nil {
		return
	}
	e := TraceSession{
		Time: time.Now(), State: SessionState(state), ID: s.ID(), Server: server, Timeout: s.Timeout(), Err: err,
		validUntil: s.knownUntil,
	}
	h.tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}
