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

// waiter is notified that a place waits: an acquisition, or a keptLock for those that share
// the place.
type waiter interface {
	queued(p *place, ahead int)
}

// waiterKey is the key of the waiter in a context.
type waiterKey struct{}

// startAcquire begins an acquisition. The context that it returns is for the rest of the
// call. It must not reach functions of the user's.
func (c *Client) startAcquire(ctx context.Context, recipe Recipe, path, op string) (context.Context, *acquisition) {
	h := &c.hooks
	if !h.acquires {
		return ctx, nil
	}
	a := &acquisition{hooks: h, ctx: ctx, what: TraceAcquireStart{Recipe: recipe, Path: path, Op: op}, began: time.Now()}
	if traced := h.acquireStart(ctx, a.what); traced != nil {
		a.ctx = traced
	}
	return context.WithValue(ctx, waiterKey{}, a), a
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
func (c *Client) acquisitionIn(ctx context.Context) *acquisition {
	if !c.hooks.acquires {
		return nil
	}
	a, _ := ctx.Value(waiterKey{}).(*acquisition)
	return a
}

// tellQueued reports that a place waits, if ctx is that of an acquisition.
func (p *place) tellQueued(ctx context.Context, ahead int) {
	if !p.line.c.hooks.acquires || p.queued {
		return
	}
	p.queued = true
	if w, ok := ctx.Value(waiterKey{}).(waiter); ok {
		w.queued(p, ahead)
	}
}

func (a *acquisition) queued(p *place, ahead int) {
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
	e.Session, e.Place, e.Token = g.s.ID(), g.place().name, g.token
	a.tellEnd(e)
	if a.hooks.trace.HoldEnd == nil {
		return
	}
	g.hold = &hold{hooks: a.hooks, recipe: e.Recipe, path: e.Path, op: e.Op, since: e.Time}
	if g.err != nil { // before the caller had it
		g.endHold()
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

// hold is a grant that the caller of an acquisition has got.
type hold struct {
	hooks    *hooks
	recipe   Recipe
	path, op string
	since    time.Time
}

// noteDowngrade notes that the lease is a reader's from now on. g.mu must be held.
func (g *grant) noteDowngrade() {
	if g.hold != nil {
		g.hold.op = "downgrade"
	}
}

// endHold reports that the grant has ended, if its begin was. g.mu must be held.
func (g *grant) endHold() {
	h := g.hold
	if h == nil {
		return
	}
	g.hold = nil
	e := TraceHoldEnd{
		Time: time.Now(), Recipe: h.recipe, Path: h.path, Op: h.op,
		Session: g.s.ID(), Place: g.place().name, Token: g.token,
	}
	e.Held = e.Time.Sub(h.since)
	if !errors.Is(g.err, ErrReleased) {
		e.Err = fail("hold", h.path, g.err)
	}
	f := h.hooks.trace.HoldEnd
	h.hooks.tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}

// tellSession reports that the state of a session has changed.
func (h *hooks) tellSession(s *session, state SessionState, server string, err error) {
	f := h.trace.Session
	if f == nil {
		return
	}
	e := TraceSession{
		Time: time.Now(), State: state, ID: s.ID(), Server: server, Timeout: s.Timeout(), Err: err,
		validUntil: s.knownUntil,
	}
	h.tell(func(dropped int) {
		e.Dropped = dropped
		f(e)
	})
}

// knownUntil is ValidUntil, or the zero time once the session has ended.
func (s *session) knownUntil() time.Time {
	if s.IsOver() {
		return time.Time{}
	}
	return s.ValidUntil()
}
