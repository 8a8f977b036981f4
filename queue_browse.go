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

// Entry is an item as it lies in the queue: to be shown it is not to have it.
type Entry struct {
	ID       ItemID
	Data     []byte
	Since    time.Time // when it was put, by the servers' clock
	Attempts int       // how often it was taken
	Taken    bool      // somebody has it
}

// ErrEmpty: Peek found no item that is free.
var ErrEmpty = errors.New("no item is free")

// Len returns how many items there are, taken ones included; 0 where there is no
// queue. It may be a moment old. It blocks for the servers' answers, and costs a
// request, and one for each segment of about a hundred items.
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

// Peek returns the item that the next Take gets if nobody else is quicker:
// ErrEmpty where there is none, or no queue. It blocks for the servers' answers,
// and costs a request, one for each segment up to the item's, and one for the
// item.
func (q *Queue) Peek(ctx context.Context) (Entry, error) {
	for e, err := range q.entries(ctx, func(e queuelog.Entry) bool { return !e.Claimed }) {
		return e, q.fail("peek into", err)
	}
	return Entry{}, q.fail("peek into", ErrEmpty)
}

// Items shows the items, in the order in which they were put, taken ones
// included. An error is the last that is shown. Items that come and go while it
// runs may be shown or not. It costs a request, one for each segment of about a
// hundred items, and one for each item.
func (q *Queue) Items(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range q.entries(ctx, func(queuelog.Entry) bool { return true }) {
			if !yield(e, q.fail("list", err)) {
				return
			}
		}
	}
}

// entries reads the items that are wanted, one after the other.
func (q *Queue) entries(ctx context.Context, want func(queuelog.Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		shown := map[string]bool{} // of the last segment, which may come again
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

// browse calls f with the segments' items, in order, until it does not want more.
// It makes nothing and sets no watch.
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

// browseIn is browse in one session, from a segment on; where it ends with an
// error, that is the one to go on with.
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
