package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Consumers take turns, so that a put wakes few of them. Turns are for quiet and order
// only. A claim excludes the other consumers, whether it is made at a turn or not.
//
// A claim leaves the line by its own transaction, with a farewell. The successor sees
// that and has the turn, even if others stand ahead of both. A turn is lost with the consumer
// that has it. So the next ones in line look for items, too: the second claims what stays
// free for a grace, and one with k others ahead of it, which looks once in k graces, what it
// sees free twice. Turns are passed on from there. To know how many are ahead, a consumer
// that has waited for a while lists the line, and watches the two places ahead of it. If
// there are more than Lookers, it also watches the one whose farewell makes it one that looks.

const (
	// Grace is for how long an item stays free before the second in line claims it.
	Grace = 50 * time.Millisecond
	// Lookers is how many places look for items: deliveries go on unless as many of them
	// are dead.
	Lookers = 8
	// maxPatience bounds after how long a consumer watches more than the nearest place.
	maxPatience = 10 * Grace
)

// lineWait is a wait in the consumers' line, with a place there.
type lineWait struct {
	*takerPool
	p    *line.Place
	scan *scanner

	// nearest are the two places ahead, and the one that is as many ahead as look.
	nearest [3]*placename.Parts
	ahead   int
	watches [3]*zkconn.Watch
	since   time.Time
	// patience is after how long it watches more than the nearest. armed: it does.
	patience time.Duration
	armed    bool
	slept    bool

	// candidate is the first free item, seen since that time, for those behind the first.
	candidate string
	seen      time.Time
	// lookAt is when those behind the second look again, zero for now.
	lookAt time.Time
}

// takeInLine waits with a place in the consumers' line for free items, and claims them
// for the takers.
func (t *takerPool) takeInLine(p *line.Place) (err error) {
	defer func() {
		if err != nil {
			t.noteFailure()
		}
	}()
	alone := p.First
	w := &lineWait{takerPool: t, p: p, scan: t.newScanner(p.Session), since: time.Now()}
	w.scan.ahead = t.takeAhead(p.Session) != nil
	for {
		if err := w.lookAhead(); err != nil {
			return err
		}
		done, err := w.tryClaim()
		switch {
		case errors.Is(err, queuelog.ErrStale):
			continue
		case done:
			w.scan.queue.Hints.Queued.Store(!alone || w.slept)
			return nil
		case err != nil:
			return err
		}
		if err := w.await(); err != nil {
			return err
		}
	}
}

// looks reports whether the place has the turn, or looks for what others leave.
func (w *lineWait) looks() bool { return w.p.First || w.armed && w.ahead > 0 && w.ahead < Lookers }

// lazy reports whether the place lets time pass before it looks at a change. Otherwise
// each change would make all that look send a request.
func (w *lineWait) lazy() bool { return !w.p.First && w.ahead > 1 }

// lookAhead finds the places ahead and watches them, unless the place has the turn.
func (w *lineWait) lookAhead() error {
	for !w.p.First {
		if w.ahead == 0 || w.armed && w.ahead > 1 && w.nearest[1] == nil {
			if err := w.list(); err != nil || w.p.First {
				return err
			}
		}
		gone, err := w.watchAhead()
		if err != nil || !gone {
			return err
		}
		w.ahead = 0
	}
	return nil
}

// list finds the places ahead, by the guess if there is one.
func (w *lineWait) list() (err error) {
	queued, ahead := w.patience > 0, 0
	w.watches = [3]*zkconn.Watch{}
	stuck := w.scan.queue.Hints.stuckPlaces()
	if guess := w.p.Guessed; guess != nil && !slices.Contains(stuck, guess.Name) {
		ahead = w.p.Ahead
		w.nearest, w.ahead = [3]*placename.Parts{guess}, max(ahead, 2) // a listing tells whether it is second
	} else if w.nearest, ahead, err = w.p.Predecessors(w.ctx, stuck, Lookers); err != nil {
		return err
	} else {
		w.ahead = ahead
	}
	w.p.Guessed = nil
	w.p.First = w.ahead == 0
	w.patience = min(Grace+Grace*time.Duration(w.ahead)/16, maxPatience)
	if !queued && !w.p.First {
		w.tellQueued(w.p, ahead)
	}
	return nil
}

// watchAhead watches the nearest place, and once armed the others and the own one, too.
// gone: one ahead has left.
func (w *lineWait) watchAhead() (gone bool, err error) {
	n := 1
	if w.armed {
		n = len(w.nearest)
	}
	for i, m := range w.nearest[:n] {
		if m != nil && w.watches[i] == nil {
			w.watches[i] = w.p.Session.StartWatch(w.consumers.Abs() + "/" + m.Name)
		}
	}
	if w.armed {
		if err := w.p.WatchOwn(w.ctx); err != nil {
			return false, err
		}
	}
	for i, watch := range w.watches {
		if watch == nil {
			continue
		}
		watch, err := w.p.Session.Await(w.ctx, watch)
		if errors.Is(err, zk.ErrNoNode) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		w.watches[i] = watch
	}
	return false, nil
}

// tryClaim claims what is free, if the place may.
func (w *lineWait) tryClaim() (done bool, err error) {
	want := w.wanted()
	if want == 0 || !w.looks() {
		w.scan.watches, w.candidate, w.lookAt = nil, "", time.Time{}
		return false, nil
	}
	if w.lazy() && time.Now().Before(w.lookAt) {
		return false, nil
	}
	w.lookAt = time.Time{}
	look := w.scan.free
	if w.p.First {
		look = w.scan.freeNow
	}
	items, err := look(w.ctx, want)
	w.scan.ahead = false
	if err != nil || !w.mayClaim(items) {
		return false, err
	}
	if done, err = w.claimFor(w.ctx, w.scan, items, w.p, nil); done && !w.p.First {
		for _, m := range w.nearest[:2] {
			if m != nil {
				w.scan.queue.Hints.noteStuck(m.Name)
			}
		}
	}
	return done, err
}

// graces is for how long an item stays free before the place claims it.
func (w *lineWait) graces() time.Duration { return Grace * time.Duration(w.ahead) }

// mayClaim reports whether there are items that the place may claim now. Those behind the
// first wait.
func (w *lineWait) mayClaim(items []string) bool {
	switch {
	case len(items) == 0:
		w.candidate = ""
		return false
	case w.p.First:
		return true
	case w.candidate != items[0]:
		w.candidate, w.seen = items[0], time.Now()
	}
	return time.Since(w.seen) >= w.graces()
}

// await waits until something has changed that the place waits for.
func (w *lineWait) await() error {
	w.slept = true
	until := w.wakeAt()
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			w.armed = true
			return nil
		}
		defer time.AfterFunc(left, w.wake).Stop()
	}
	if w.looks() {
		if err := w.p.WatchOwn(w.ctx); err != nil {
			return err
		}
	}
	watches := w.watchesAhead()
	sleeps := until.IsZero() || !w.lazy() // until an item comes, too
	if sleeps {
		watches = append(watches, w.scan.watches...)
	}
	if err := line.AwaitAnyOr(w.ctx, w.p, watches, w.changed); err != nil {
		return err
	}
	w.noteDepartures()
	if sleeps && w.lazy() && slices.ContainsFunc(w.scan.watches, (*zkconn.Watch).HasFired) {
		w.lookAt = time.Now().Add(w.graces())
	}
	return nil
}

// wakeAt returns when await returns at the latest; zero: not before something changes.
func (w *lineWait) wakeAt() time.Time {
	switch {
	case w.p.First:
	case !w.armed:
		return w.since.Add(w.patience)
	case w.lazy() && !w.lookAt.IsZero():
		return w.lookAt
	case w.looks() && w.candidate != "":
		return w.seen.Add(w.graces())
	}
	return time.Time{}
}

// watchesAhead returns the watches on places ahead, none if the place has the turn.
func (w *lineWait) watchesAhead() (watches []*zkconn.Watch) {
	if w.p.First {
		return nil
	}
	for _, watch := range w.watches {
		if watch != nil {
			watches = append(watches, watch)
		}
	}
	return watches
}

// noteDepartures notes which of the places ahead has left. A farewell passes the turn on:
// to the own place, if the nearest has left, and else to the nearest, behind which the
// own place is second.
func (w *lineWait) noteDepartures() {
	if w.p.Own != nil && w.p.Own.HasFired() { // changed by somebody
		w.p.Own = nil
	}
	for i, watch := range w.watches {
		if watch == nil || !watch.HasFired() {
			continue
		}
		w.watches[i], w.nearest[i] = nil, nil
		_, farewell := watch.Changed()
		switch {
		case !farewell:
			w.ahead = 0
		case i == 0:
			w.p.First = true
		case i == 2:
			w.ahead = min(w.ahead, Lookers-1)
		case w.nearest[0] != nil:
			w.ahead = 1
		}
	}
}
