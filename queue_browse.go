package zkrecipes

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Entry describes an item in the queue. It gives no claim on the item.
type Entry struct {
	ID       ItemID
	Data     []byte
	Since    time.Time // when it was put, by the servers' clock
	Attempts int       // how often it was taken
	Taken    bool      // somebody has it
}

// ErrEmpty is returned by Peek if no item is free.
var ErrEmpty = errors.New("no item is free")

// Len returns how many items there are, taken ones included, and 0 if there is no
// queue. The number may be a moment old. Len blocks until the servers answer. It costs
// one request, and one for each segment of about a hundred items.
func (q *Queue) Len(ctx context.Context) (int, error) {
	n := 0
	err := q.browse(ctx, func(_ *session, _ string, items []queuelog.Entry) (bool, error) {
		n += len(items)
		return true, nil
	})
	if err != nil {
		return 0, q.fail("count", err)
	}
	return n, nil
}

// Peek returns the item that the next Take gets if nobody else is quicker. It blocks
// until the servers answer. ErrEmpty is returned if no item is free, or if there is no
// queue. Peek costs one request, one for each segment up to the item's, and one for the
// item.
func (q *Queue) Peek(ctx context.Context) (Entry, error) {
	for e, err := range q.entries(ctx, func(e queuelog.Entry) bool { return !e.Claimed }) {
		return e, q.fail("peek into", err)
	}
	return Entry{}, q.fail("peek into", ErrEmpty)
}

// Items returns an iterator over the items, taken ones included, in the order in which
// they were put. After an error the iteration ends. Items that come or go in the
// meantime may or may not be included. It costs one request, one for each segment of
// about a hundred items, and one for each item.
func (q *Queue) Items(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range q.entries(ctx, func(queuelog.Entry) bool { return true }) {
			if !yield(e, q.fail("list", err)) {
				return
			}
		}
	}
}

// entries reads the items that want selects, one after the other.
func (q *Queue) entries(ctx context.Context, want func(queuelog.Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		shown := map[string]bool{} // of the last segment, which may be listed again
		last := ""
		err := q.browse(ctx, func(s *session, segment string, items []queuelog.Entry) (bool, error) {
			if segment != last {
				last = segment
				clear(shown)
			}
			for _, item := range items {
				if shown[item.Name] || !want(item) {
					continue
				}
				data, stat, err := s.Get(ctx, segment+"/"+item.Name)
				switch {
				case errors.Is(err, zk.ErrNoNode): // acked in the meantime
					continue
				case err != nil:
					return false, err
				}
				shown[item.Name] = true
				if !yield(Entry{
					ID: ItemID(item.ID()), Data: data, Since: time.UnixMilli(stat.Ctime),
					Attempts: int(queuelog.Creates(stat)), Taken: stat.NumChildren > 0,
				}, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// browse calls f with the items of each segment, in order, until f wants no more. It
// creates nothing and sets no watch.
func (q *Queue) browse(ctx context.Context, f func(s *session, segment string, items []queuelog.Entry) (more bool, err error)) error {
	if err := q.check(ctx); err != nil {
		return err
	}
	ctx, done := q.c.bind(ctx)
	defer done()
	for next := int64(0); ; {
		s, err := q.c.live(ctx)
		if err != nil {
			return err
		}
		next, err = q.browseIn(ctx, s, next, f)
		if !errors.Is(err, zkconn.ErrSessionOver) { // else it goes on in the next session
			return err
		}
	}
}

// browseIn is browse in one session, beginning with the segment from. If it fails, next
// is the segment with which to go on.
func (q *Queue) browseIn(ctx context.Context, s *session, from int64, f func(*session, string, []queuelog.Entry) (bool, error)) (next int64, err error) {
	log := s.newQueueLog(q.abs())
	numbers, err := log.List(ctx)
	if err != nil {
		return from, err
	}
	for _, n := range numbers {
		if n < from {
			continue
		}
		children, _, err := s.Children(ctx, log.Segment(n))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		more := false
		if err == nil {
			more, err = f(s, log.Segment(n), queuelog.Entries(children))
		}
		if err != nil || !more {
			return n, err
		}
	}
	return 0, nil
}
