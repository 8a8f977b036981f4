package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// The errors of the queue. The package above documents them.
var (
	coreErrEmpty     = errors.New("no item is free")
	coreErrItemTaken = errors.New("item is taken")
	coreErrItemGone  = errors.New("no such item")
)

// itemQueue is a queue.
type itemQueue struct {
	c           *line.Client
	path        string
	opts        queueConfig
	hooks       queueHooks
	isDead      bool // of dead letters; it exists from the first letter on
	consumers   *line.Line
	producers   *line.Line // if there is a bound
	claims      *line.Line // of the claims, which do not wait in any line
	segmentSize int64      // after how many creates a segment is sealed
}

// queueConfig has the settings of a queue. The package above documents them.
type queueConfig struct {
	MaxLen       int
	MaxAttempts  int
	DeadLetter   string
	MaxItemBytes int

	Workers      int
	DrainTimeout time.Duration
	Backoff      func(attempt int) time.Duration
}

// queueHooks are functions of the package above.
type queueHooks struct {
	// acquire begins an acquisition of an item of the queue with that path, and ends it with
	// what was acquired or with an error.
	acquire func(ctx context.Context, path, op string) (_ context.Context, end func(*line.Grant, error))
	// logged returns an item's ID as it is logged.
	logged func(id string) any
}

const defaultMaxAttempts = 16

func newItemQueue(c *line.Client, path string, cfg queueConfig, hooks queueHooks) *itemQueue {
	q := &itemQueue{c: c, path: path, opts: cfg, hooks: hooks, segmentSize: queuelog.SegmentSize}
	if c != nil && c.Segment > 0 {
		q.segmentSize = c.Segment
	}
	if q.opts.MaxAttempts == 0 {
		q.opts.MaxAttempts = defaultMaxAttempts
	}
	if q.opts.DeadLetter == "" {
		q.opts.DeadLetter = path + "-dead"
	}
	if q.opts.Workers == 0 {
		q.opts.Workers = 1
	}
	if q.opts.Backoff == nil {
		q.opts.Backoff = backOff
	}
	sub := func(name string) *line.Line {
		return &line.Line{
			Client: c, Path: path + name, Recipe: "queue", Kinds: line.LockKinds, Rejoins: true,
			Blocks: line.EveryoneBlocks, Foreign: line.IsRWLockKind,
		}
	}
	q.consumers, q.producers, q.claims = sub("/line"), sub("/room"), sub("")
	return q
}

func (q *itemQueue) abs() string { return q.c.Abs(q.path) }

func (q *itemQueue) check(ctx context.Context) error {
	if q == nil || q.consumers == nil {
		return errors.New("not made by NewQueue")
	}
	if err := q.c.Check(ctx, q.path); err != nil {
		return err
	}
	switch {
	case q.opts.MaxLen < 0:
		return fmt.Errorf("QueueOptions.MaxLen is %d", q.opts.MaxLen)
	case q.opts.MaxItemBytes < 0:
		return fmt.Errorf("QueueOptions.MaxItemBytes is %d", q.opts.MaxItemBytes)
	case q.opts.Workers < 0:
		return fmt.Errorf("QueueOptions.Workers is %d", q.opts.Workers)
	case q.opts.DrainTimeout < 0:
		return fmt.Errorf("QueueOptions.DrainTimeout is %v", q.opts.DrainTimeout)
	case q.opts.DeadLetter == q.path:
		return errors.New("QueueOptions.DeadLetter is the queue itself")
	}
	if err := q.c.CheckPath(q.opts.DeadLetter); err != nil {
		return fmt.Errorf("QueueOptions.DeadLetter %q: %w", q.opts.DeadLetter, err)
	}
	return nil
}

// count returns how many items there are, taken ones included.
func (q *itemQueue) count(ctx context.Context) (n int, err error) {
	err = q.browse(ctx, func(seg *browsed) (bool, error) {
		n += len(seg.items)
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// queueEntry describes an item in the queue.
type queueEntry struct {
	id       string
	data     []byte
	since    time.Time
	attempts int
	failure  itemFailure

	taken      bool // which the next three describe
	consumer   string
	session    int64
	takenSince time.Time
}

// peek returns the first free item.
func (q *itemQueue) peek(ctx context.Context) (queueEntry, error) {
	for e, err := range q.entries(ctx, func(e queuelog.Entry) bool { return !e.Claimed }) {
		if errors.Is(err, line.ErrUnused) {
			err = fmt.Errorf("%w: %w", coreErrEmpty, err)
		}
		return e, err
	}
	return queueEntry{}, coreErrEmpty
}

// list reads all items.
func (q *itemQueue) list(ctx context.Context) iter.Seq2[queueEntry, error] {
	return q.entries(ctx, func(queuelog.Entry) bool { return true })
}

// find returns the item with that ID.
func (q *itemQueue) find(ctx context.Context, id string) (found queueEntry, err error) {
	gone := coreErrItemGone
	err = q.eachSegment(ctx, func(seg *browsed) (more bool, err error) {
		i := slices.IndexFunc(seg.items, func(e queuelog.Entry) bool { return e.ID() == id })
		if i < 0 {
			return true, nil
		}
		found, err = seg.entry(ctx, seg.items[i])
		switch {
		case err == nil:
			gone = nil
		case errors.Is(err, zk.ErrNoNode): // acked in the meantime
			err = nil
		}
		return false, err
	})
	return found, cmp.Or(err, gone)
}

// entries reads the items that want selects, one after the other.
func (q *itemQueue) entries(ctx context.Context, want func(queuelog.Entry) bool) iter.Seq2[queueEntry, error] {
	return func(yield func(queueEntry, error) bool) {
		shown := map[string]bool{} // of the last segment, which may be listed again
		last := ""
		err := q.browse(ctx, func(seg *browsed) (bool, error) {
			if seg.path != last {
				last = seg.path
				clear(shown)
			}
			for _, item := range seg.items {
				if shown[item.Name] || !want(item) {
					continue
				}
				e, err := seg.entry(ctx, item)
				switch {
				case errors.Is(err, zk.ErrNoNode): // acked in the meantime
					continue
				case err != nil:
					return false, err
				}
				shown[item.Name] = true
				if !yield(e, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(queueEntry{}, err)
		}
	}
}

// browsed is a segment as it was listed.
type browsed struct {
	s      *line.Session
	number int64
	path   string
	items  []queuelog.Entry
	stat   *zk.Stat
}

// entry reads an item of the segment, and the flag of the consumer that has it.
func (b *browsed) entry(ctx context.Context, item queuelog.Entry) (queueEntry, error) {
	data, stat, err := b.s.Get(ctx, b.path+"/"+item.Name)
	if err != nil {
		return queueEntry{}, err
	}
	e := queueEntry{id: item.ID(), since: time.UnixMilli(stat.Ctime), attempts: queuelog.Claims(stat, item.Claimed)}
	e.data, e.failure = cutNote(item.Name, data)
	if !item.Claimed || stat.NumChildren == 0 {
		return e, nil
	}
	identity, stat, err := b.s.Get(ctx, b.path+"/"+item.Flag)
	switch {
	case err == nil:
		e.taken, e.consumer, e.session, e.takenSince = true, string(identity), stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
	case errors.Is(err, zk.ErrNoAuth): // its ACL does not let this client read it
		e.taken = true
	case !errors.Is(err, zk.ErrNoNode): // given back in the meantime
		return queueEntry{}, err
	}
	return e, nil
}

// browse calls f with the items of each segment, in order, until f wants no more. It
// creates nothing and sets no watch.
func (q *itemQueue) browse(ctx context.Context, f func(*browsed) (more bool, err error)) error {
	if err := q.check(ctx); err != nil {
		return err
	}
	ctx, done := q.c.Bind(ctx)
	defer done()
	seen := false // a segment, of which there is one in each queue
	see := func(seg *browsed) (bool, error) {
		seen = true
		return f(seg)
	}
	next := int64(0)
	return q.c.InSessions(ctx, func(s *line.Session) (err error) {
		next, err = q.browseIn(ctx, s, next, see)
		if err == nil && !seen {
			err = q.checkUse(ctx, s)
		}
		return err
	})
}

// checkUse returns ErrUnused or ErrPathInUse unless there is a queue.
func (q *itemQueue) checkUse(ctx context.Context, s *line.Session) error {
	if q.isDead {
		return nil
	}
	_, err := s.Exists(ctx, q.abs()+queuelog.RootName)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	data, _, err := s.Get(ctx, q.abs())
	switch {
	case err != nil:
		return line.Unused(err)
	case len(data) > 0:
		return cmp.Or(line.CheckQueuePath(data), line.ErrUnused)
	}
	return line.ErrUnused
}

// browseIn is browse in one session, beginning with the segment from. If it fails, next
// is the segment with which to go on.
func (q *itemQueue) browseIn(ctx context.Context, s *line.Session, from int64, f func(*browsed) (bool, error)) (next int64, err error) {
	log := newQueueLog(s, q.abs())
	numbers, err := log.List(ctx)
	if err != nil {
		return from, err
	}
	for _, n := range numbers {
		if n < from {
			continue
		}
		children, stat, err := s.Children(ctx, log.Segment(n))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		more := false
		if err == nil {
			more, err = f(&browsed{s: s, number: n, path: log.Segment(n), items: queuelog.Entries(children), stat: stat})
		}
		if err != nil || !more {
			return n, err
		}
	}
	return 0, nil
}
