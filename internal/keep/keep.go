// Package keep lets many callers of a process share one place in a line: see KeepFor.
package keep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A lock that is kept: its place outlives the hold, for the next caller of the same
// process. The place is kept only while it is alone in its line, under a watch on the
// line's children whose first event ends that. The protocol was model-checked
// (docs/models/keep.pml).

// Lock keeps a lock between two holders. Its Acquire and TryAcquire stand for those of the
// line.
type Lock struct {
	line *line.Line
	d    time.Duration
}

// New returns what keeps the lock for up to d after a release.
func New(l *line.Line, d time.Duration) *Lock { return &Lock{line: l, d: d} }

// phase is what a kept lock does with its place.
type phase int

const (
	// vacant: there is no place.
	vacant phase = iota
	// taking: a place is being taken.
	taking
	// held: a caller has the current grant.
	held
	// passing: the current grant is the successor of one that was just released, or nil if that
	// successor was lost. Nobody has it until PassOn has found out whether the place may be used again.
	passing
	// idle: the current grant is for the next caller.
	idle
	// leaving: the place is being deleted.
	leaving
)

// keptLock is a line as the callers of one Client see it: at most one place, and the
// calls that wait for it.
type keptLock struct {
	line *line.Line

	mu      sync.Mutex // before grant.mu
	calls   []*keptCall
	phase   phase
	current *hold.Grant
	// stop ends the wait of a call for a place, nil if none waits for one.
	stop     context.CancelFunc
	d        time.Duration
	released time.Time

	// watch is on the line's children, set while the place was alone.
	watch *zkconn.Watch
	// confirmed is when the place was last known to be alone for certain.
	confirmed time.Time
	gone      chan struct{}
	due       *time.Timer
	// leaves is the last grant that beginLeave has returned.
	leaves *hold.Grant
}

// become begins a phase. g is its current grant, nil in a phase without one. k.mu must be held.
func (k *keptLock) become(p phase, g *hold.Grant) {
	k.phase, k.current = p, g
	if k.due != nil {
		k.due.Stop()
		k.due = nil
	}
	if g == nil && k.watch != nil {
		close(k.gone)
		k.watch = nil
	}
	switch {
	case p == idle:
		k.due = time.AfterFunc(time.Until(k.released.Add(k.d)), func() {
			k.leaveIdle(func(now *hold.Grant) bool { return now == g })
		})
	case p == vacant && len(k.calls) > 0:
		k.take()
	}
}

// keptLocks are those of a Client that are in use.
type keptLocks struct {
	mu    sync.Mutex // before that of a lock
	locks map[session.At]*keptLock
}

func keptBy(c *session.Client) *keptLocks {
	return session.Attached(c, func() *keptLocks { return &keptLocks{locks: map[session.At]*keptLock{}} })
}

// LeaveIdle leaves, in the background, the places that are kept and that nobody holds. When it
// returns, their grants are released: if the Client ended them first, that would be no release.
// Places that are given back from now on are not kept: they get no further grant.
func LeaveIdle(c *session.Client) {
	all := keptBy(c)
	all.mu.Lock()
	kept := slices.Collect(maps.Values(all.locks))
	all.mu.Unlock()
	for _, k := range kept {
		if g := k.beginLeave(func(*hold.Grant) bool { return true }); g != nil {
			c.Tasks.Start(func() { k.leave(g) })
		}
		if g := k.lastLeft(); g != nil { // perhaps its timer began to leave it
			<-g.Over
		}
	}
}

// keptCall is a call that waits.
type keptCall struct {
	d time.Duration
	// late: it came after the event of the watch.
	late   bool
	queued line.QueuedHook

	done chan struct{} // closed when there is a result:
	g    *hold.Grant
	err  error
}

func (c *keptCall) end(g *hold.Grant, err error) {
	c.g, c.err = g, err
	close(c.done)
}

// locked returns the lock on the Mutex's path, locked, or an error if ctx or the Client has
// ended. It must be unlocked with unlock.
func (m *Lock) locked(ctx context.Context) (*keptLock, error) {
	c, key := m.line.Client, m.line.At
	switch {
	case c.Waiting.Err() != nil:
		return nil, errs.ErrClosed
	case ctx.Err() != nil:
		return nil, c.ContextErr(ctx)
	}
	all := keptBy(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	k := all.locks[key]
	if k == nil {
		k = &keptLock{line: m.line}
		all.locks[key] = k
	}
	k.mu.Lock()
	return k, nil
}

// unlock also forgets a lock that nobody uses.
func (k *keptLock) unlock() {
	unused := k.isUnused()
	k.mu.Unlock()
	if !unused {
		return
	}
	all := keptBy(k.line.Client)
	all.mu.Lock()
	defer all.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isUnused() && all.locks[k.line.At] == k {
		delete(all.locks, k.line.At)
	}
}

func (k *keptLock) isUnused() bool { return len(k.calls) == 0 && k.phase == vacant }

// Acquire waits for the callers before it, and for the place's turn.
func (m *Lock) Acquire(ctx context.Context, _ layout.Kind) (*hold.Grant, error) {
	k, err := m.locked(ctx)
	if err != nil {
		return nil, err
	}
	if g := k.takeIdle(m.d); g != nil {
		k.unlock()
		return g, nil
	}
	call := &keptCall{d: m.d, late: k.hasCompany(), queued: line.QueuedHookIn(ctx), done: make(chan struct{})}
	k.calls = append(k.calls, call)
	if k.phase == vacant {
		k.take()
	}
	k.unlock()
	select {
	case <-call.done:
	case <-ctx.Done():
		if k.remove(call) {
			return nil, k.line.Client.ContextErr(ctx)
		}
	}
	return call.g, call.err
}

// TryAcquire is like Acquire but returns ErrLocked instead of waiting, without a request if
// the place is the process's own.
func (m *Lock) TryAcquire(ctx context.Context, kd layout.Kind) (*hold.Grant, error) {
	k, err := m.locked(ctx)
	if err != nil {
		return nil, err
	}
	if g := k.takeIdle(m.d); g != nil {
		k.unlock()
		return g, nil
	}
	if !k.isUnused() {
		k.unlock()
		return nil, errs.ErrLocked
	}
	k.become(taking, nil)
	k.unlock()
	g, err := k.line.TryAcquire(ctx, kd)
	k.mu.Lock()
	defer k.unlock()
	if err == nil && g.KeepBy(k) {
		k.d = m.d
		k.become(held, g)
	} else {
		k.become(vacant, nil)
	}
	return g, err
}

// remove removes a call that gives up. false: it has its result.
func (k *keptLock) remove(call *keptCall) bool {
	k.mu.Lock()
	defer k.unlock()
	i := slices.Index(k.calls, call)
	if i < 0 {
		return false
	}
	k.calls = slices.Delete(k.calls, i, i+1)
	if len(k.calls) == 0 && k.stop != nil {
		k.stop()
	}
	return true
}

// hasCompany reports whether another session has joined, as far as is known. k.mu must
// be held.
func (k *keptLock) hasCompany() bool { return k.watch != nil && k.watch.HasFired() }

// takeIdle takes the kept place, if nobody has it and nobody else is in the line. k.mu
// must be held.
func (k *keptLock) takeIdle(d time.Duration) *hold.Grant {
	g := k.current
	if k.phase != idle || k.hasCompany() || !k.begin(g) {
		return nil
	}
	k.d = d
	k.become(held, g)
	return g
}

// begin gives the next grant of the place to a caller. The clock must be looked at
// first, as for any grant. k.mu must be held.
func (k *keptLock) begin(g *hold.Grant) bool {
	if !g.Session.IsValid() {
		k.line.Client.Tasks.Start(func() { g.EndIdle(errs.Lost(errs.ErrSilent)) }) // unless the next call gets it
		return false
	}
	return g.Activate()
}

// take takes a place for the calls that wait. k.mu must be held.
func (k *keptLock) take() {
	c := k.line.Client
	k.become(taking, nil)
	for _, call := range k.calls {
		call.late = false
	}
	ctx := context.Background()   // it does not end with any one call
	if k.calls[0].queued != nil { // of a Client's calls all have one, or none has
		ctx = line.WithQueuedHook(ctx, k)
	}
	ctx, cancel := c.BindWait(ctx)
	k.stop = cancel
	c.Tasks.Start(func() {
		defer cancel()
		g, err := k.line.Acquire(ctx, layout.KindLock)
		k.taken(g, err, ctx.Err() != nil && c.Waiting.Err() == nil)
	})
}

// Queued reports to the waiting calls that their place waits.
func (k *keptLock) Queued(p *line.Place, ahead int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range k.calls {
		if call.queued != nil {
			call.queued.Queued(p, ahead)
		}
	}
}

// taken gives a new place's first grant to the first call. stopped: no call waited any
// more.
func (k *keptLock) taken(g *hold.Grant, err error, stopped bool) {
	k.mu.Lock()
	k.stop = nil
	switch {
	case err == nil && len(k.calls) > 0 && g.KeepBy(k):
		k.serve(g)
	case err == nil:
		k.become(leaving, nil)
		k.mu.Unlock()
		_ = g.Release()
		k.left()
		return
	case stopped:
		k.become(vacant, nil)
	default:
		for _, call := range k.calls {
			call.end(nil, err)
		}
		k.calls = nil
		k.become(vacant, nil)
	}
	k.unlock()
}

// serve hands a grant to the first call. k.mu must be held.
func (k *keptLock) serve(g *hold.Grant) {
	call := k.calls[0]
	k.calls[0] = nil
	k.calls = k.calls[1:]
	k.d = call.d
	k.become(held, g)
	call.end(g, nil)
}

// Ended is called when a grant has ended, while its place's events are still delivered.
// After a release it makes the place's next grant, which nobody has yet. PassOn comes after.
func (k *keptLock) Ended(g *hold.Grant, cause error) {
	k.mu.Lock()
	defer k.unlock()
	switch {
	case k.current != g:
	case errors.Is(cause, errs.ErrReleased):
		k.released = time.Now()
		if next := g.Successor(); next != nil {
			k.become(passing, next)
		} else {
			k.become(leaving, nil)
		}
	case k.phase == passing && errors.Is(cause, errs.ErrClosed): // PassOn runs, and deletes the place
		k.become(leaving, nil)
	case k.phase == passing: // PassOn runs, and makes it vacant; the place is deleted without it
		k.become(passing, nil)
	default:
		k.become(vacant, nil)
	}
}

// PassOn hands the place of a grant that was released to the next call, keeps it or
// leaves it.
func (k *keptLock) PassOn(g *hold.Grant) error {
	k.mu.Lock()
	next := k.current
	switch {
	case next == nil && k.phase == passing: // it was lost
		k.become(vacant, nil)
		k.unlock()
		return nil
	case next == nil:
		k.mu.Unlock()
		err := g.ReleaseThing()
		k.left()
		return err
	}
	first, company := k.watch == nil, k.hasCompany()
	early := k.servesEarly()
	goesOn := !first && !company && k.released.Sub(k.confirmed) < k.d
	k.mu.Unlock()
	switch {
	case early: // the event may have been the place's own deletion
		goesOn = k.stands(line.PlaceOf(next))
	case !goesOn && !company:
		var w *zkconn.Watch
		if w, goesOn = k.ask(line.PlaceOf(next), first); goesOn {
			k.confirm(w)
		}
	}
	if !k.goesOn(next, goesOn) {
		err := next.Release()
		k.left()
		return err
	}
	return nil
}

// ask asks the server whether the place is alone in its line, the first time with a
// watch. Then it asks for the number of children before it asks for their names.
func (k *keptLock) ask(p *line.Place, first bool) (w *zkconn.Watch, alone bool) {
	ctx, cancel, ok := k.whileConnected(p)
	if !ok {
		return nil, false
	}
	defer cancel()
	if !first {
		names, stat, err := p.Session.Children(ctx, k.line.Abs())
		return nil, err == nil && p.IsAlone(names, stat)
	}
	others := k.line.Others()
	line, err := p.Session.Exists(ctx, k.line.Abs())
	if err != nil || int(line.NumChildren) > 1+others {
		return nil, false
	}
	w, err = p.Session.WatchChildren(ctx, k.line.Abs())
	return w, err == nil && p.IsAlone(w.Children, &w.Stat)
}

// stands reports whether the place is watched and nobody has deleted it. It costs a
// request if the place was not watched yet.
func (k *keptLock) stands(p *line.Place) bool {
	ctx, cancel, ok := k.whileConnected(p)
	if !ok {
		return false
	}
	defer cancel()
	w, err := p.Session.Watch(ctx, p.Path)
	return err == nil && !w.HasFired()
}

// whileConnected returns a context that ends when the connection is lost, because
// Release does not wait for the next one. ok is false if there is none.
func (k *keptLock) whileConnected(p *line.Place) (_ context.Context, cancel context.CancelFunc, ok bool) {
	up, changed := p.Session.Connected()
	if !up {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(p.Session.UntilAnswered())
	k.line.Client.Tasks.Start(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	return ctx, cancel, true
}

// confirm notes that the place was alone after the last release. w is the watch that
// fires when it no longer is, nil if there was one.
func (k *keptLock) confirm(w *zkconn.Watch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.confirmed = k.released
	if w == nil || k.current == nil {
		return
	}
	gone := make(chan struct{})
	k.watch, k.gone = w, gone
	k.line.Client.Tasks.Start(func() {
		select {
		case <-w.Fired():
			k.leaveIdle(func(*hold.Grant) bool { return k.watch == w })
		case <-gone:
		}
	})
}

// servesEarly reports whether another session has joined, and a call that came before it
// waits. k.mu must be held.
func (k *keptLock) servesEarly() bool {
	return k.hasCompany() && len(k.calls) > 0 && !k.calls[0].late
}

// goesOn gives next to a call, or keeps it. It reports whether the place may be kept: only if
// it stands, is alone or was when the first of the calls came, and if grants are still made.
func (k *keptLock) goesOn(next *hold.Grant, stands bool) bool {
	k.mu.Lock()
	defer k.unlock()
	stopped := k.line.Client.Held.IsStopped()
	switch {
	case k.current != next: // it was lost
		k.become(vacant, nil)
	case !stands, stopped, k.hasCompany() && !k.servesEarly():
		k.become(leaving, nil)
		return false
	case len(k.calls) == 0:
		k.become(idle, next)
	case k.begin(next):
		k.serve(next)
	case k.line.Client.Held.IsStopped(): // since the look above
		k.become(leaving, nil)
		return false
	default: // it is about to end
		k.become(held, next)
	}
	return true
}

// leaveIdle leaves the place if nobody has it, and if the condition holds.
func (k *keptLock) leaveIdle(holds func(*hold.Grant) bool) {
	if g := k.beginLeave(holds); g != nil {
		k.leave(g)
	}
}

// beginLeave is the first half of leaveIdle. It returns the grant for leave, nil if the place stays.
func (k *keptLock) beginLeave(holds func(*hold.Grant) bool) *hold.Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.current
	if k.phase != idle || !holds(g) {
		return nil
	}
	k.become(leaving, nil)
	k.leaves = g
	return g
}

func (k *keptLock) lastLeft() *hold.Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leaves
}

func (k *keptLock) leave(g *hold.Grant) {
	_ = g.Release()
	k.left()
}

// left is called after the deletion of a place.
func (k *keptLock) left() {
	k.mu.Lock()
	defer k.unlock()
	k.become(vacant, nil)
}
