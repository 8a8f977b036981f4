package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Consumers stand in a line, and only the first one looks for items: a put wakes one
// consumer, and that one's claim wakes its successor, however many wait. It leaves the
// line with the claim, in one transaction.

// take waits for an item. p is a place in the line, nil where there is none yet.
func (q *Queue) take(ctx context.Context, p *place) (it *Item, err error) {
	for ; ; p = nil {
		err = q.consumers.inTurn(ctx, kindLock, p, func(p *place) error {
			it, err = q.takeFirst(ctx, p)
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
		if err := q.moveToDeadLetters(ctx, it, it.Data, it.Attempt-1, neverAcked); err != nil {
			return nil, err
		}
	}
}

// takeFirst waits, with p first in line, for a free item, and claims it.
func (q *Queue) takeFirst(ctx context.Context, p *place) (*Item, error) {
	scan := &scanner{p: p, queue: p.s.queue(q.abs()), held: map[string]*zkconn.Watch{}}
	for {
		item, err := scan.firstFree(ctx)
		switch {
		case errors.Is(err, queuelog.ErrStale):
			continue
		case err != nil:
			return nil, err
		case item == "":
			if err := p.awaitAny(ctx, scan.watches); err != nil {
				return nil, err
			}
			continue
		}
		it, err := q.claim(ctx, p, item)
		switch {
		case errors.Is(err, errTaken):
			err = scan.taken(ctx, item)
		case errors.Is(err, errGone):
			err = nil
		default:
			return it, err
		}
		if err == nil { // what was listed is old, and this server may lag
			err = p.s.Sync(ctx, item)
		}
		if err != nil {
			return nil, err
		}
	}
}

// scanner is the first consumer's view of the queue.
type scanner struct {
	p       *place
	queue   *queueState
	watches []*zkconn.Watch // one of them fires when an item becomes free
	// held has the items that turned out to be claimed although no flag shows it, with
	// a watch that fires when the claim goes. The watch is nil where that happened once,
	// which a listing that is a moment old explains.
	held map[string]*zkconn.Watch
}

// firstFree scans the segments from the oldest to the open one and returns the path of
// the first item that is free, "" where there is none.
//
// It keeps a watch on every segment that it passes: a watch on the open segment alone
// would never fire for an item that comes back in an older one.
func (s *scanner) firstFree(ctx context.Context) (item string, err error) {
	s.watches = s.watches[:0]
	s.queue.unblock()
	err = s.queue.Scan(ctx, func(n int64, segment *zkconn.Watch) bool {
		for _, e := range queuelog.Entries(segment.Children) {
			path := s.queue.Segment(n) + "/" + e.Name
			if !e.Claimed && !s.isHeld(path) {
				item = path
				return false
			}
		}
		if queuelog.IsSealed(segment) && segment.Stat.NumChildren == 0 {
			s.queue.Delete(ctx, n, segment)
		} else {
			s.watches = append(s.watches, segment)
		}
		return true
	})
	return item, err
}

// isHeld reports whether the claim itself has shown that the item is not free.
func (s *scanner) isHeld(item string) bool {
	w := s.held[item]
	if blocked, ok := s.queue.blocked.Load(item); ok {
		w = blocked.(*zkconn.Watch)
	}
	if w == nil {
		return false
	}
	if w.HasFired() {
		delete(s.held, item)
		return false
	}
	s.watches = append(s.watches, w)
	return true
}

// taken notes that an item that looks free is not: its claim exists, and the flag does
// not. Somebody has deleted the flag, or the listing is old.
func (s *scanner) taken(ctx context.Context, item string) error {
	if _, again := s.held[item]; !again {
		s.held[item] = nil
		return nil
	}
	exclusion := item + queuelog.ClaimName
	w, err := s.p.s.Watch(ctx, exclusion)
	if errors.Is(err, zk.ErrNoAuth) { // somebody else's; the item's children tell when it goes
		w, err = s.p.s.WatchChildren(ctx, item)
		if err == nil && !slices.Contains(w.Children, queuelog.ClaimName[1:]) {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	s.held[item] = w
	if w.Stat.EphemeralOwner == 0 { // no claim: it may stay for ever
		s.queue.blocked.Store(item, w)
		s.p.line.c.hooks.log(slog.LevelError, "an item cannot be claimed until somebody deletes the znode below it",
			"queue", s.p.line.path, "znode", exclusion)
	}
	return nil
}
