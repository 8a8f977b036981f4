package zkrecipes

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Consumers take turns, so that a put wakes few of them. Turns are for quiet and order
// only. A claim excludes the other consumers, whether it is made at a turn or not.
//
// A claim leaves the line by its own transaction, with a farewell. The successor sees
// that and has the turn, whoever stands ahead of both. A turn is lost with the consumer
// that has it. So the second in line looks for items, too, and claims what stays free
// for a grace. From then on turns are passed on from there. To know when it is second, a
// consumer that has waited for a while watches the two places ahead of it.

const (
	// grace is for how long an item stays free before the second in line claims it.
	grace = 50 * time.Millisecond
	// maxPatience bounds after how long a consumer watches two places.
	maxPatience = 10 * grace
)

// turn is a wait in the consumers' line, with a place there.
type turn struct {
	*turns
	p    *place
	scan *scanner

	nearest  [2]*placeName    // the places ahead, the nearest first
	ahead    int              // how many there are, 0: not known
	guessed  bool             // nearest is a guess
	watches  [2]*zkconn.Watch // on nearest
	second   bool             // one place is ahead
	since    time.Time        // when the wait began
	patience time.Duration    // after which it watches two places
	armed    bool             // it does
	slept    bool

	candidate string    // the first free item, for the second in line
	seen      time.Time // since when
}

// takeInLine waits with a place in the consumers' line for free items, and claims them
// for the takers.
func (t *turns) takeInLine(p *place) (err error) {
	defer func() {
		if err != nil {
			t.noteFailure()
		}
	}()
	alone := p.first
	w := &turn{turns: t, p: p, scan: t.newScanner(p.s), since: time.Now()}
	w.scan.ahead = t.takeAhead(p.s) != nil
	for {
		if err := w.lookAhead(); err != nil {
			return err
		}
		done, err := w.tryClaim()
		switch {
		case errors.Is(err, queuelog.ErrStale):
			continue
		case done:
			w.scan.queue.turns.queued.Store(!alone || w.slept)
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
func (w *turn) looks() bool { return w.p.first || w.second && w.armed }

// lookAhead finds the places ahead and watches them, unless the place has the turn.
func (w *turn) lookAhead() error {
	for !w.p.first {
		if w.ahead == 0 || w.armed && w.ahead > 1 && w.nearest[1] == nil {
			if err := w.list(); err != nil || w.p.first {
				return err
			}
		}
		gone, err := w.watchAhead()
		if err != nil || !gone {
			return err
		}
		if w.guessed {
			w.consumers.noteBrief(true)
		}
		w.ahead = 0
	}
	return nil
}

// list finds the places ahead, by the guess if there is one.
func (w *turn) list() (err error) {
	queued, ahead := w.patience > 0, 0
	w.watches = [2]*zkconn.Watch{}
	stuck := w.scan.queue.turns.stuckPlaces()
	if guess := w.p.guessed; guess != nil && !slices.Contains(stuck, guess.name) {
		w.guessed, ahead = true, w.p.ahead
		w.nearest, w.ahead = [2]*placeName{guess}, max(ahead, 2) // a listing tells whether it is second
	} else if w.nearest, ahead, err = w.p.predecessors(w.ctx, stuck); err != nil {
		return err
	} else {
		w.guessed, w.ahead = false, ahead
	}
	w.p.guessed = nil
	w.p.first, w.second = w.ahead == 0, w.ahead == 1
	w.patience = min(grace+grace*time.Duration(w.ahead)/16, maxPatience)
	if !queued && !w.p.first {
		w.tellQueued(w.p, ahead)
	}
	return nil
}

// watchAhead watches the nearest place, and once armed the second nearest and the own
// one, too. gone: one ahead has left.
func (w *turn) watchAhead() (gone bool, err error) {
	n := 1
	if w.armed {
		n = 2
	}
	for i, m := range w.nearest[:n] {
		if m != nil && w.watches[i] == nil {
			w.watches[i] = w.p.s.StartWatch(w.consumers.abs() + "/" + m.name)
		}
	}
	if w.armed {
		if err := w.p.watchOwn(w.ctx); err != nil {
			return false, err
		}
	}
	for i, watch := range w.watches {
		if watch == nil {
			continue
		}
		watch, err := w.p.s.Await(w.ctx, watch)
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
func (w *turn) tryClaim() (done bool, err error) {
	want := w.wanted()
	if want == 0 || !w.looks() {
		w.scan.watches, w.candidate = nil, ""
		return false, nil
	}
	look := w.scan.free
	if w.p.first {
		look = w.scan.freeNow
	}
	items, err := look(w.ctx, want)
	w.scan.ahead = false
	if err != nil || !w.mayClaim(items) {
		return false, err
	}
	if done, err = w.claim(w.ctx, w.scan, items, w.p, nil); done && !w.p.first {
		w.scan.queue.turns.noteStuck(w.nearest[0].name)
	}
	return done, err
}

// mayClaim reports whether there are items that the place may claim now. The second in
// line waits for a grace.
func (w *turn) mayClaim(items []string) bool {
	switch {
	case len(items) == 0:
		w.candidate = ""
		return false
	case w.p.first:
		return true
	case w.candidate != items[0]:
		w.candidate, w.seen = items[0], time.Now()
	}
	return time.Since(w.seen) >= grace
}

// await waits until something has changed that the place waits for.
func (w *turn) await() error {
	w.slept = true
	var until time.Time
	switch {
	case !w.p.first && !w.armed:
		until = w.since.Add(w.patience)
	case !w.p.first && w.looks() && w.candidate != "":
		until = w.seen.Add(grace)
	}
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			w.armed = true
			return nil
		}
		defer time.AfterFunc(left, w.wake).Stop()
	}
	if w.looks() {
		if err := w.p.watchOwn(w.ctx); err != nil {
			return err
		}
	}
	var watches []*zkconn.Watch
	if !w.p.first {
		for _, watch := range w.watches {
			if watch != nil {
				watches = append(watches, watch)
			}
		}
	}
	if err := w.p.awaitAnyOr(w.ctx, append(watches, w.scan.watches...), w.changed); err != nil {
		return err
	}
	w.noteDepartures()
	return nil
}

// noteDepartures notes which of the places ahead has left. A farewell passes the turn on:
// to the own place, if the nearest has left, and else to the nearest, behind which the
// own place is second.
func (w *turn) noteDepartures() {
	if w.p.own != nil && w.p.own.HasFired() { // changed by a super user
		w.p.own = nil
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
			w.p.first = true
		case w.nearest[0] != nil:
			w.second, w.ahead = true, 1
		}
	}
}
