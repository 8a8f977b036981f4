// Package keep lets many callers of a process share one place in a line: see KeepFor.
package keep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A lock that is kept: its place outlives the hold, for the next caller of the same
// process. The place is kept only while it is alone in its line, under a watch on the
// line's children whose first event ends that. The protocol was model-checked
// (docs/models/keep.pml).

// Lock keeps a lock between two holders. Its Enter and TryEnter stand for those of the
// line.
type Lock struct {
	line  *line.Line
	d     time.Duration // for how long
	again bool
}

// New returns what keeps the lock for up to d after a release. again: the user has
// asked for that more than once.
func New(l *line.Line, d time.Duration, again bool) *Lock {
	return &Lock{line: l, d: d, again: again}
}

func (m *Lock) Check() error {
	switch {
	case m == nil:
		return nil
	case m.d <= 0:
		return fmt.Errorf("KeepFor(%v): not positive", m.d)
	case m.again:
		return errors.New("KeepFor is given more than once")
	}
	return nil
}

// keptLock is a line as the callers of one Client see it: at most one place, and the
// calls that wait for it.
type keptLock struct {
	line *line.Line

	Mu       sync.Mutex // before grant.mu
	calls    []*keptCall
	busy     bool               // a place is being taken, passed on or left
	stop     context.CancelFunc // ends the wait for a place; nil: there is none
	Current  *line.Grant        // of the place, the present one or the next; nil: none
	Idle     bool               // current may be taken
	d        time.Duration      // of the last holder's Mutex
	released time.Time          // when the last holder released its lease

	watch     *zkconn.Watch // of the line's children, set while the place was alone; nil: none
	confirmed time.Time     // when the place was last known to be alone for certain
	gone      chan struct{} // closed when the place has gone
	due       *time.Timer   // leaves an idle place
}

// keptLocks are those of a Client that are in use.
type keptLocks struct {
	mu    sync.Mutex // before that of a lock
	Locks map[line.HolderKey]*keptLock
}

func KeptBy(c *session.Client) *keptLocks {
	return session.Attached(c, func() *keptLocks { return &keptLocks{Locks: map[line.HolderKey]*keptLock{}} })
}

// LeaveIdle leaves, in the background, the places that are kept and that nobody holds.
// Places that are given back from now on are not kept: they get no further grant.
func LeaveIdle(c *session.Client) {
	all := KeptBy(c)
	all.mu.Lock()
	kept := slices.Collect(maps.Values(all.Locks))
	all.mu.Unlock()
	for _, k := range kept {
		c.Tasks.Start(func() { k.leaveIdle(func(*line.Grant) bool { return true }) })
	}
}

// keptCall is a call that waits.
type keptCall struct {
	d      time.Duration
	late   bool        // it came after the event of the watch
	waiter line.Waiter // that the call is; nil: none

	done chan struct{} // closed when there is a result:
	g    *line.Grant
	err  error
}

func (c *keptCall) end(g *line.Grant, err error) {
	c.g, c.err = g, err
	close(c.done)
}

// Locked returns the lock on the Mutex's path, locked, or an error if ctx or the Client has
// ended. It must be unlocked with unlock.
func (m *Lock) Locked(ctx context.Context) (*keptLock, error) {
	c, key := m.line.Client, m.line.Key()
	switch {
	case c.Waiting.Err() != nil:
		return nil, errs.ErrClosed
	case ctx.Err() != nil:
		return nil, c.ContextErr(ctx)
	}
	all := KeptBy(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	k := all.Locks[key]
	if k == nil {
		k = &keptLock{line: m.line}
		all.Locks[key] = k
	}
	k.Mu.Lock()
	return k, nil
}

// Unlock also forgets a lock that nobody uses.
func (k *keptLock) Unlock() {
	unused := k.isUnused()
	k.Mu.Unlock()
	if !unused {
		return
	}
	all := KeptBy(k.line.Client)
	all.mu.Lock()
	defer all.mu.Unlock()
	k.Mu.Lock()
	defer k.Mu.Unlock()
	if k.isUnused() && all.Locks[k.line.Key()] == k {
		delete(all.Locks, k.line.Key())
	}
}

func (k *keptLock) isUnused() bool { return len(k.calls) == 0 && !k.busy && k.Current == nil }

// Enter waits for the callers before it, and for the place's turn.
func (m *Lock) Enter(ctx context.Context, _ placename.Kind) (*line.Grant, error) {
	k, err := m.Locked(ctx)
	if err != nil {
		return nil, err
	}
	if g := k.takeIdle(m.d); g != nil {
		k.Unlock()
		return g, nil
	}
	call := &keptCall{d: m.d, late: k.hasCompany(), waiter: line.WaiterIn(ctx), done: make(chan struct{})}
	k.calls = append(k.calls, call)
	k.take()
	k.Unlock()
	select {
	case <-call.done:
	case <-ctx.Done():
		if k.remove(call) {
			return nil, k.line.Client.ContextErr(ctx)
		}
	}
	return call.g, call.err
}

// TryEnter is like enter but returns ErrLocked instead of waiting, without a request if
// the place is the process's own.
func (m *Lock) TryEnter(ctx context.Context, kd placename.Kind) (*line.Grant, error) {
	k, err := m.Locked(ctx)
	if err != nil {
		return nil, err
	}
	if g := k.takeIdle(m.d); g != nil {
		k.Unlock()
		return g, nil
	}
	if !k.isUnused() {
		k.Unlock()
		return nil, errs.ErrLocked
	}
	k.busy = true
	k.Unlock()
	g, err := k.line.TryEnter(ctx, kd)
	k.Mu.Lock()
	k.busy = false
	if err == nil && g.KeepBy(k) {
		k.Current, k.d = g, m.d
	}
	k.take()
	k.Unlock()
	return g, err
}

// remove removes a call that gives up. false: it has its result.
func (k *keptLock) remove(call *keptCall) bool {
	k.Mu.Lock()
	defer k.Unlock()
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
func (k *keptLock) takeIdle(d time.Duration) *line.Grant {
	g := k.Current
	if !k.Idle || k.hasCompany() || !k.begin(g) {
		return nil
	}
	k.Idle, k.d = false, d
	k.due.Stop()
	return g
}

// begin gives the next grant of the place to a caller. The clock must be looked at
// first, as for any grant. k.mu must be held.
func (k *keptLock) begin(g *line.Grant) bool {
	if !g.Session.IsValid() {
		k.line.Client.Tasks.Start(func() { g.EndIdle(errs.Lost(errs.ErrSilent)) }) // unless the next call gets it
		return false
	}
	return g.Begun()
}

// take takes a place for the calls that wait, if there is none. k.mu must be held.
func (k *keptLock) take() {
	c := k.line.Client
	if k.busy || k.Current != nil || len(k.calls) == 0 {
		return
	}
	k.busy = true
	for _, call := range k.calls {
		call.late = false
	}
	ctx := context.Background()   // it does not end with any one call
	if k.calls[0].waiter != nil { // of a Client's calls all have a waiter, or none has
		ctx = line.WithWaiter(ctx, k)
	}
	ctx, cancel := c.BindWait(ctx)
	k.stop = cancel
	c.Tasks.Start(func() {
		defer cancel()
		g, err := k.line.Enter(ctx, placename.KindLock)
		k.taken(g, err, ctx.Err() != nil && c.Waiting.Err() == nil)
	})
}

// Queued reports to the waiting calls that their place waits.
func (k *keptLock) Queued(p *line.Place, ahead int) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	for _, call := range k.calls {
		if call.waiter != nil {
			call.waiter.Queued(p, ahead)
		}
	}
}

// taken gives a new place's first grant to the first call. stopped: no call waited any
// more.
func (k *keptLock) taken(g *line.Grant, err error, stopped bool) {
	k.Mu.Lock()
	k.busy, k.stop = false, nil
	switch {
	case err == nil && len(k.calls) > 0 && g.KeepBy(k):
		k.Current = g
		k.serve()
	case err == nil:
		k.busy = true
		k.Mu.Unlock()
		_ = g.Quit()
		k.left()
		return
	case stopped:
		k.take()
	default:
		for _, call := range k.calls {
			call.end(nil, err)
		}
		k.calls = nil
	}
	k.Unlock()
}

// serve hands the current grant to the first call. k.mu must be held.
func (k *keptLock) serve() {
	call := k.calls[0]
	k.calls[0] = nil
	k.calls = k.calls[1:]
	k.d = call.d
	call.end(k.Current, nil)
}

// Ended is called when a grant has ended, while its place's events are still delivered.
// After a release it makes the place's next grant, which nobody has yet. PassOn comes after.
func (k *keptLock) Ended(g *line.Grant, cause error) {
	k.Mu.Lock()
	defer k.Unlock()
	if k.Current != g {
		return
	}
	k.Current, k.Idle = nil, false
	if !errors.Is(cause, errs.ErrReleased) {
		k.forget()
		k.take()
		return
	}
	k.released, k.busy = time.Now(), true
	if k.Current = g.Successor(); k.Current == nil {
		k.forget()
	}
}

// forget is called for a place that is being deleted. k.mu must be held.
func (k *keptLock) forget() {
	if k.watch != nil {
		close(k.gone)
		k.watch = nil
	}
	if k.due != nil {
		k.due.Stop()
	}
}

// PassOn hands the place of a grant that was released to the next call, keeps it or
// leaves it.
func (k *keptLock) PassOn(g *line.Grant) error {
	k.Mu.Lock()
	next := k.Current
	if next == nil {
		k.Mu.Unlock()
		err := g.LeaveNow()
		k.left()
		return err
	}
	first, company := k.watch == nil, k.hasCompany()
	early := company && len(k.calls) > 0 && !k.calls[0].late
	goesOn := !first && !company && k.released.Sub(k.confirmed) < k.d
	k.Mu.Unlock()
	switch {
	case early: // the event may have been the place's own deletion
		goesOn = k.stands(next.Place())
	case !goesOn && !company:
		var w *zkconn.Watch
		if w, goesOn = k.ask(next.Place(), first); goesOn {
			k.confirm(w)
		}
	}
	if !k.goesOn(next, goesOn) {
		err := next.Quit()
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
		return nil, err == nil && isAlone(p, names, stat)
	}
	state, _, _ := k.line.Known()
	line, err := p.Session.Exists(ctx, k.line.Abs())
	if err != nil || int(line.NumChildren) > 1+state.Others {
		return nil, false
	}
	w, err = p.Session.WatchChildren(ctx, k.line.Abs())
	return w, err == nil && isAlone(p, w.Children, &w.Stat)
}

// isAlone reports whether nobody waits behind the place, if the line has those children and
// that Stat. Once the line's numbers are beyond the limit, callers that step aside may wait,
// and do not stand in the line.
func isAlone(p *line.Place, children []string, stat *zk.Stat) bool {
	ms := placename.ParseAll(children, p.Line.Kinds)
	return len(ms) == 1 && ms[0].Name == p.Name && !line.IsBeyondLimit(p.Line.Client, line.NextNumber(stat))
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
	ctx, cancel := context.WithCancel(p.Session.Lifetime())
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
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.confirmed = k.released
	if w == nil || k.Current == nil {
		return
	}
	gone := make(chan struct{})
	k.watch, k.gone = w, gone
	k.line.Client.Tasks.Start(func() {
		select {
		case <-w.Fired():
			k.leaveIdle(func(*line.Grant) bool { return k.watch == w })
		case <-gone:
		}
	})
}

// goesOn gives next to a call, or keeps it. It reports whether the place may be kept: only if
// it stands, is alone or was when the first of the calls came, and if grants are still made.
func (k *keptLock) goesOn(next *line.Grant, stands bool) bool {
	k.Mu.Lock()
	defer k.Unlock()
	waits, stopped := len(k.calls) > 0, k.line.Client.Held.IsStopped()
	switch {
	case k.Current != next: // it was lost
		k.busy = false
		k.take()
		return true
	case stands && !stopped && k.hasCompany() && waits && !k.calls[0].late:
	case k.hasCompany(), !stands, stopped:
		k.drop()
		return false
	}
	k.busy = false
	switch {
	case !waits:
		k.Idle = true
		k.due = time.AfterFunc(time.Until(k.released.Add(k.d)), func() {
			k.leaveIdle(func(g *line.Grant) bool { return g == next })
		})
	case k.begin(next):
		k.serve()
	case k.line.Client.Held.IsStopped(): // since the look above
		k.drop()
		return false
	}
	return true
}

// leaveIdle leaves the place if nobody has it, and if the condition holds.
func (k *keptLock) leaveIdle(holds func(*line.Grant) bool) {
	k.Mu.Lock()
	g := k.Current
	if !k.Idle || !holds(g) {
		k.Mu.Unlock()
		return
	}
	k.drop()
	k.Mu.Unlock()
	_ = g.Quit()
	k.left()
}

// drop is for a place that is about to be left. left must follow. k.mu must be held.
func (k *keptLock) drop() {
	k.Current, k.Idle, k.busy = nil, false, true
	k.forget()
}

// left is called after the deletion of a place.
func (k *keptLock) left() {
	k.Mu.Lock()
	defer k.Unlock()
	k.busy = false
	k.take()
}
