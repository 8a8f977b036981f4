package line

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/assert"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// AwaitTurn waits until no place that blocks p is ahead of it. guess is the supposed predecessor, or nil;
// only the first attempt uses it. It fails if ctx or the session ends, or if p's znode is gone.
func (p *Place) AwaitTurn(ctx context.Context, guess *Guess) error {
	// again is the predecessor whose watch was lost. It is still the nearest, since nobody joins ahead
	// (I8), so the line is not listed.
	var again *layout.PlaceName
	for ; !p.HasTurn; guess = nil {
		pred, ahead := again, 0
		again = nil
		switch {
		case guess != nil:
			pred, ahead = &guess.PlaceName, guess.ahead
		case pred == nil:
			var err error
			if pred, ahead, err = p.predecessor(ctx); err != nil {
				return err
			}
			if pred == nil {
				p.HasTurn = true
				return nil
			}
		}
		before, err := p.watchPredecessor(ctx, *pred)
		if err != nil {
			return err
		}
		if before == nil {
			p.predecessorHadLeft(*pred, ahead, guess != nil)
			continue
		}
		p.WaitedFor = pred.Name
		p.TellQueued(ctx, ahead)
		if err := p.awaitPredecessor(ctx, before); err != nil {
			return err
		}
		if before.HasFired() && before.IsLost() {
			again = pred
		}
	}
	return nil
}

// predecessor lists the line and returns the place's predecessor: the nearest place ahead
// that blocks it. nil: it is the place's turn. ahead is how many places are ahead in
// all.
func (p *Place) predecessor(ctx context.Context) (pred *layout.PlaceName, ahead int, err error) {
	ms, err := p.Line.List(ctx, p.Session)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, 0, err
	}
	if !slices.ContainsFunc(ms, func(m layout.PlaceName) bool { return m.Name == p.Name }) {
		return nil, 0, p.WhyGone(ctx)
	}
	ms = slices.DeleteFunc(ms, func(m layout.PlaceName) bool { return m.Compare(p.PlaceName) >= 0 })
	for i, m := range ms {
		if p.Line.Blocks(p.Kind, m.Kind) && (pred == nil || pred.Compare(m) < 0) {
			pred = &ms[i]
		}
	}
	p.noteAhead(ms)
	if pred != nil { // a copy, because it is kept for as long as the wait lasts
		m, _ := layout.ParsePlace(strings.Clone(pred.Name), p.Line.Kinds)
		pred = &m
	}
	return pred, len(ms), nil
}

// watchPredecessor watches the own place and the predecessor, by requests that are under
// way together. nil and no error: the predecessor has gone.
//
// The own watch must be answered, too, before an event is taken for a release (I2). After a reconnect it
// is set again before the predecessor's is set. Servers before 3.9 tell no zxids, so there no event is
// taken for a release, and awaitPredecessor sets the own watch later, after hold.WatchDelay.
func (p *Place) watchPredecessor(ctx context.Context, pred layout.PlaceName) (*zkconn.PredecessorWatch, error) {
	if p.Own != nil && p.Own.HasFired() {
		p.Own = nil
	}
	var own *zkconn.Watch
	if p.Session.TellsZxids() {
		own = p.StartOwn()
	}
	before, err := p.Session.WatchPredecessor(ctx, p.Line.Abs()+"/"+pred.Name)
	if own != nil {
		if err := p.AwaitOwn(ctx, own); err != nil {
			return nil, err
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return before, err
}

// predecessorHadLeft is called if the predecessor had left before it was watched. It sets p.HasTurn if
// it is this place's turn. Otherwise the caller must look again.
func (p *Place) predecessorHadLeft(pred layout.PlaceName, ahead int, guessed bool) {
	switch {
	case guessed:
		p.Line.noteFailed(true)
	case ahead == 1 && p.Kind == layout.KindLock: // I8
		p.HasTurn = p.Own != nil && !p.Own.HasFired() // I2
	}
	p.Line.Client.Log(slog.LevelDebug, "predecessor of a place had left before it was watched", "session", p.Session.Name(), "place", p.Path,
		"predecessor", pred.Name, "guessed", guessed, "turn", p.HasTurn)
}

// awaitPredecessor waits for the predecessor to go. It sets p.HasTurn if the predecessor has released
// the line to this place. Otherwise the caller must look again.
func (p *Place) awaitPredecessor(ctx context.Context, before *zkconn.PredecessorWatch) error {
	p.Line.Client.Log(slog.LevelDebug, "place waits", "session", p.Session.Name(), "place", p.Path, "predecessor", p.WaitedFor)
	late := time.NewTimer(hold.WatchDelay(p.Session))
	defer late.Stop()
	for waits := true; waits; {
		waits = false
		select {
		case <-before.Fired():
		case <-p.Own.Fired():
		case <-late.C: // where the own watch was not set at once
			if err := p.WatchOwn(ctx); err != nil {
				return err
			}
			waits = true
		case <-p.Session.Over():
			return zkconn.ErrSessionOver
		case <-ctx.Done():
			return p.Session.ContextErr(ctx)
		}
	}
	if p.Own != nil && p.Own.HasFired() { // must come first (I2)
		if p.Own.Deleted() {
			return p.WhyGone(ctx)
		}
		p.Line.Client.Log(slog.LevelDebug, "place was changed by somebody", "session", p.Session.Name(), "place", p.Path)
		return nil
	}
	p.HasTurn = before.IsReleased() && p.Own != nil // I3
	if assert.Failed != nil && p.HasTurn && before.Event().Zxid <= p.Czxid {
		assert.Failed("I3: the predecessor left before the place came")
	}
	p.Line.Client.Log(slog.LevelDebug, "predecessor of a place has left", "session", p.Session.Name(), "place", p.Path, "predecessor", p.WaitedFor,
		"released", p.HasTurn, "watch_lost", before.IsLost(), "zxid", before.Event().Zxid)
	return nil
}

// Notifier is a *zkconn.Watch or a *zkconn.PredecessorWatch.
type Notifier interface {
	Notify(c chan<- struct{})
	StopNotify(c chan<- struct{})
}

// AwaitAny waits until one of the watches fires, or something is received from other. It watches the own
// place, too: no other event would tell the first in line that its place was deleted.
func AwaitAny[W Notifier](ctx context.Context, p *Place, watches []W, other <-chan struct{}) error {
	if err := p.WatchOwn(ctx); err != nil {
		return err
	}
	fired := make(chan struct{}, 1) // one for all: there may be a hundred thousand watches
	defer func() {
		for _, w := range watches {
			w.StopNotify(fired)
		}
	}()
	for _, w := range watches {
		w.Notify(fired)
	}
	select {
	case <-fired:
	case <-other:
	case <-p.Own.Fired():
	case <-p.Session.Over():
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return p.Session.ContextErr(ctx)
	case p.Session.IsOver():
		return zkconn.ErrSessionOver
	case p.Own.HasFired() && p.Own.Deleted():
		return p.WhyGone(ctx)
	}
	return nil
}

// QueuedHook is told once that the call's place has to wait, and how many are ahead.
type QueuedHook interface {
	Queued(p *Place, ahead int)
}

// queuedHookKey is the key of the hook in a context.
type queuedHookKey struct{}

// WithQueuedHook returns a context with w, for the rest of a call.
func WithQueuedHook(ctx context.Context, w QueuedHook) context.Context {
	return context.WithValue(ctx, queuedHookKey{}, w)
}

// QueuedHookIn returns the hook in a context, nil if there is none.
func QueuedHookIn(ctx context.Context) QueuedHook {
	w, _ := ctx.Value(queuedHookKey{}).(QueuedHook)
	return w
}

// TellQueued tells the hook in ctx, if there is one, that the place waits. It does so once.
func (p *Place) TellQueued(ctx context.Context, ahead int) {
	if p.queued {
		return
	}
	p.queued = true
	if hook := QueuedHookIn(ctx); hook != nil {
		hook.Queued(p, ahead)
	}
}
