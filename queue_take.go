package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/go-zookeeper/zk"
)

// Consumers stand in a line, and only the first one looks for items: one that is
// put wakes one consumer, and the claim of that one its successor, however many
// wait. It leaves the line with the claim, in one transaction.

// take waits for an item. p is a place in the line, nil where there is none yet.
func (q *Queue) take(ctx context.Context, p *place) (it *Item, err error) {
	for ; ; p = nil {
		err = q.line.inTurn(ctx, kindLock, p, func(p *place) error {
			it, err = q.next(ctx, p)
			return err
		})
		switch {
		case errors.Is(err, errLostAtOnce):
			continue
		case err != nil:
			return nil, err
		case q.opts.MaxAttempts < 0 || it.Attempt <= q.opts.MaxAttempts:
			return it, nil
		}
		if err := q.bury(ctx, it); err != nil {
			return nil, err
		}
	}
}

// next waits, with p first in line, for an item that nobody has, and claims it.
func (q *Queue) next(ctx context.Context, p *place) (*Item, error) {
	l := &lookout{q: q, p: p, st: p.s.stockOf(q.abs()), held: map[string]*watch{}}
	for {
		item, err := l.look(ctx)
		switch {
		case errors.Is(err, errStale):
			continue
		case err != nil:
			return nil, err
		case item == "":
			if err := p.sleep(ctx, l.watches); err != nil {
				return nil, err
			}
			continue
		}
		it, err := q.claim(ctx, p, item)
		switch {
		case errors.Is(err, errTaken):
			err = l.taken(ctx, item)
		case errors.Is(err, errGone):
			err = nil
		default:
			return it, err
		}
		if err == nil { // what was looked at is old, and this server may lag
			err = p.s.sync(ctx, item)
		}
		if err != nil {
			return nil, err
		}
	}
}

// lookout is the first consumer's view of the queue.
type lookout struct {
	q       *Queue
	p       *place
	st      *stock
	watches []*watch // that hear of anything which makes an item free
	// held has the items that were found taken although no flag shows it, and the
	// watches on what shows it instead: nil where that was found once, which a
	// view that is a moment old explains.
	held map[string]*watch
}

// look goes through the segments, from the oldest to the open one, and returns
// the path of the first item that is free; where there is none, "".
//
// All segments that it passes have a watch: one on the open segment alone would
// never hear of an item that comes back in an older one.
func (l *lookout) look(ctx context.Context) (item string, err error) {
	l.watches = l.watches[:0]
	err = l.st.walk(ctx, func(n int64, w *watch) bool {
		nodes := itemNodes(w.children)
		for _, node := range nodes {
			path := l.st.segment(n) + "/" + node.name
			if !node.taken && !l.isHeld(path) {
				item = path
				return false
			}
		}
		if sealed(w) && w.stat.NumChildren == 0 {
			l.st.remove(ctx, n)
		} else {
			l.watches = append(l.watches, w)
		}
		return true
	})
	return item, err
}

// isHeld reports whether the item is known to be somebody's by the claim itself.
func (l *lookout) isHeld(item string) bool {
	w := l.held[item]
	if w == nil {
		return false
	}
	if w.fired() {
		delete(l.held, item)
		return false
	}
	l.watches = append(l.watches, w)
	return true
}

// taken notes that an item that looks free is not: its claim stands, and the flag
// does not. Somebody has deleted that, or a view is old.
func (l *lookout) taken(ctx context.Context, item string) error {
	if _, again := l.held[item]; !again {
		l.held[item] = nil
		return nil
	}
	w, err := l.p.s.watch(ctx, item+claimName)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err == nil {
		l.held[item] = w
	}
	return err
}

// sealed reports whether another segment follows.
func sealed(w *watch) bool { return w.stat.Version > 0 }

// walk calls f with the segments, from the oldest to the open one, until f does
// not want more; each has a watch on its children. errStale: what is known has
// changed on the way.
func (st *stock) walk(ctx context.Context, f func(n int64, w *watch) (more bool)) error {
	if err := st.learn(ctx); err != nil {
		return err
	}
	gone := false // the segment before
	for n := int64(-1); ; {
		seg, last, ok := st.behind(n)
		if !ok {
			return errStale
		}
		n = seg.number
		w, err := st.s.watchOf(ctx, watchKey{st.segment(n), ofChildren})
		switch {
		case errors.Is(err, zk.ErrNoNode) && (gone || last):
			st.forget()
			if seg.guessed {
				if err := st.repair(ctx); err != nil {
					return err
				}
			}
			return errStale
		case errors.Is(err, zk.ErrNoNode):
			// Others have emptied it. The list of all is long where the backlog is; the
			// next one is known, if the queue is the same.
			same, err := st.same(ctx)
			if err != nil {
				return err
			}
			if !same {
				st.unborn()
				return errStale
			}
			st.drop(n)
			gone = true
			continue
		case err != nil:
			return err
		case !st.saw(n, w.stat.Czxid, sealed(w)):
			st.unborn()
			return errStale
		}
		gone = false
		if !f(n, w) || !sealed(w) {
			return nil
		}
	}
}

// remove deletes a segment that is sealed and empty, and so stays that.
func (st *stock) remove(ctx context.Context, n int64) {
	_, _, err := st.s.multi(ctx, &zk.DeleteRequest{Path: st.segment(n), Version: 1})
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		st.drop(n)
	}
}

// sleep waits until one of the watches fires. The own place is watched too: of
// who stands first nobody else would tell that somebody has deleted it.
func (p *place) sleep(ctx context.Context, watches []*watch) error {
	if err := p.watchOwn(ctx); err != nil {
		return err
	}
	cases := make([]reflect.SelectCase, 0, len(watches)+3)
	for _, done := range []<-chan struct{}{p.own.done, p.s.over, ctx.Done()} {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(done)})
	}
	for _, w := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.done)})
	}
	reflect.Select(cases)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case p.s.isOver():
		return errSessionOver
	case p.own.fired() && p.own.deleted():
		return p.gone(ctx)
	}
	return nil
}

// deadPath returns the absolute path of the queue of the dead letters.
func (q *Queue) deadPath() string { return q.c.abs(q.opts.DeadLetter) }

// bury moves an item that was taken too often to the dead letters. Whoever takes
// it does so, before anybody gets it: so an item that kills each process which
// works on it does not stay at the head for ever.
func (q *Queue) bury(ctx context.Context, it *Item) error {
	err := (&ending{it: it, to: it.lease.g.s.stockOf(q.deadPath())}).run(ctx)
	if err == nil {
		q.c.hooks.log(slog.LevelWarn, "item was moved to the dead letters", "item", it.ID, "queue", q.path,
			"dead letters", q.opts.DeadLetter, "attempts", it.Attempt-1)
		return nil
	}
	q.c.tasks.start(func() { it.lease.Release() }) // it was not, or is gone
	if errors.Is(err, ErrLost) || errors.Is(err, ErrUncertain) {
		return nil // its next consumer does it, if it was not done
	}
	return fmt.Errorf("move item %s to the dead letters, %s: %w", it.ID, q.opts.DeadLetter, err)
}
