package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The errors of the queue. The package above documents them.
var (
	ErrEmpty     = errors.New("no item is free")
	ErrItemTaken = errors.New("item is taken")
	ErrItemGone  = errs.ErrItemGone
)

// Queue is a queue.
type Queue struct {
	session.At
	Opts  Options
	hooks Hooks
	// isDead: it is a queue of dead letters, which exists from the first letter on.
	isDead    bool
	consumers *line.Line
	producers *line.Line
	// SegmentSize is after how many creates a segment is sealed.
	SegmentSize int64
}

// Options has the settings of a queue. The package above documents them.
type Options struct {
	MaxLen       int
	MaxAttempts  int
	DeadLetter   string
	MaxItemBytes int

	Workers        int
	DrainTimeout   time.Duration
	HandlerTimeout time.Duration
	Backoff        func(attempt int) time.Duration
}

// Hooks are functions of the package above.
type Hooks struct {
	// Acquire begins an acquisition of an item of the queue with that path, and ends it with
	// what was acquired or with an error.
	Acquire func(ctx context.Context, path, op string) (_ context.Context, end func(*hold.Grant, error))
	// Logged returns an item's ID as it is logged.
	Logged func(id string) any
}

// segmentSize is that of a Client's queues, in tests; 0: the default.
type segmentSize struct{ n int64 }

// SetSegmentSize sets how many items the segments of the Client's queues have, 0 for the default.
// It comes before the first queue.
func SetSegmentSize(c *session.Client, n int64) {
	session.Attached(c, func() *segmentSize { return &segmentSize{n} })
}

const defaultMaxAttempts = 16

// maxWorkers is far more than a session has room for items.
const maxWorkers = 100_000

func New(c *session.Client, path string, cfg Options, hooks Hooks) *Queue {
	q := &Queue{At: session.At{Client: c, Path: path, Recipe: "queue"}, Opts: cfg, hooks: hooks, SegmentSize: queuelog.SegmentSize}
	if c != nil {
		size := session.Attached(c, func() *segmentSize { return new(segmentSize) })
		q.SegmentSize = cmp.Or(size.n, q.SegmentSize)
	}
	if q.Opts.MaxAttempts == 0 {
		q.Opts.MaxAttempts = defaultMaxAttempts
	}
	if q.Opts.DeadLetter == "" {
		q.Opts.DeadLetter = path + "-dead"
	}
	if q.Opts.Workers == 0 {
		q.Opts.Workers = 1
	}
	if q.Opts.Backoff == nil {
		q.Opts.Backoff = BackOff
	}
	sub := func(name string) *line.Line {
		return &line.Line{
			At: session.At{Client: c, Path: path + name, Recipe: "queue"}, Kinds: layout.LockKinds, RejoinsIfDeleted: true,
			Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind,
		}
	}
	q.consumers, q.producers = sub("/line"), sub("/room")
	return q
}

func (q *Queue) Check(ctx context.Context) error {
	if q == nil || q.consumers == nil {
		return errors.New("not made by NewQueue")
	}
	if err := q.Client.Check(ctx, q.Path); err != nil {
		return err
	}
	switch {
	case q.Opts.MaxLen < 0:
		return fmt.Errorf("QueueOptions.MaxLen must not be negative: %d", q.Opts.MaxLen)
	case q.Opts.MaxItemBytes < 0:
		return fmt.Errorf("QueueOptions.MaxItemBytes must not be negative: %d", q.Opts.MaxItemBytes)
	case q.Opts.Workers < 0:
		return fmt.Errorf("QueueOptions.Workers must not be negative: %d", q.Opts.Workers)
	case q.Opts.Workers > maxWorkers:
		return fmt.Errorf("QueueOptions.Workers is %d, and may be %d at most", q.Opts.Workers, maxWorkers)
	case q.Opts.DrainTimeout < 0:
		return fmt.Errorf("QueueOptions.DrainTimeout must not be negative: %v", q.Opts.DrainTimeout)
	case q.Opts.HandlerTimeout < 0:
		return fmt.Errorf("QueueOptions.HandlerTimeout must not be negative: %v", q.Opts.HandlerTimeout)
	case q.Opts.DeadLetter == q.Path:
		return errors.New("QueueOptions.DeadLetter is the queue itself")
	}
	if err := q.Client.CheckPath(q.Opts.DeadLetter); err != nil {
		return fmt.Errorf("QueueOptions.DeadLetter %q: %w", q.Opts.DeadLetter, err)
	}
	return nil
}

// Len returns how many items there are, taken ones included.
func (q *Queue) Len(ctx context.Context) (n int, err error) {
	err = q.browse(ctx, func(seg *browsed) (bool, error) {
		n += len(seg.items)
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Entry describes an item in the queue.
type Entry struct {
	ID       string
	Data     []byte
	Since    time.Time
	Attempts int
	Failure  Failure

	Taken      bool
	Consumer   string
	Session    int64
	TakenSince time.Time
}

// Peek returns the first free item.
func (q *Queue) Peek(ctx context.Context) (Entry, error) {
	for e, err := range q.entries(ctx, func(e queuelog.Entry) bool { return !e.Claimed }) {
		if errors.Is(err, errs.ErrUnused) {
			err = fmt.Errorf("%w: %w", ErrEmpty, err)
		}
		return e, err
	}
	return Entry{}, ErrEmpty
}

// Entries reads all items.
func (q *Queue) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return q.entries(ctx, func(queuelog.Entry) bool { return true })
}

// Find returns the item with that ID.
func (q *Queue) Find(ctx context.Context, id string) (found Entry, err error) {
	err = q.find(ctx, id, func(seg *browsed, item queuelog.Entry) (err error) {
		found, err = seg.entry(ctx, item)
		if errors.Is(err, zk.ErrNoNode) {
			err = ErrItemGone
		}
		return err
	})
	return found, err
}

// find calls f with the item of that ID as it is listed, or returns ErrItemGone.
func (q *Queue) find(ctx context.Context, id string, f func(*browsed, queuelog.Entry) error) error {
	gone := ErrItemGone
	err := q.eachSegment(ctx, func(seg *browsed) (bool, error) {
		i := slices.IndexFunc(seg.items, func(e queuelog.Entry) bool { return e.ID() == id })
		if i < 0 {
			return true, nil
		}
		err := f(seg, seg.items[i])
		if err == nil {
			gone = nil
		}
		return false, err
	})
	return cmp.Or(err, gone)
}

// entries reads the items that want selects, one after the other.
func (q *Queue) entries(ctx context.Context, want func(queuelog.Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		shown := map[string]bool{} // a segment may be listed again
		err := q.browse(ctx, func(seg *browsed) (bool, error) {
			for _, item := range seg.items {
				if shown[item.Name] || !want(item) {
					continue
				}
				e, err := seg.entry(ctx, item)
				switch {
				case errors.Is(err, zk.ErrNoNode):
					continue
				case err != nil:
					return false, err
				}
				shown[item.Name] = true
				if !yield(e, nil) {
					return false, nil
				}
			}
			clear(shown)
			return true, nil
		})
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// browsed is a segment as it was listed.
type browsed struct {
	s      *session.Session
	number int64
	path   string
	items  []queuelog.Entry
	stat   *zk.Stat
}

// entry reads an item of the segment, and the flag of the consumer that has it.
func (b *browsed) entry(ctx context.Context, item queuelog.Entry) (Entry, error) {
	data, stat, err := b.s.Get(ctx, b.path+"/"+item.Name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{ID: item.ID(), Since: time.UnixMilli(stat.Ctime), Attempts: queuelog.Claims(stat, item.Claimed)}
	e.Data, e.Failure = CutNote(item.Name, data)
	if !item.Claimed || stat.NumChildren == 0 {
		return e, nil
	}
	identity, stat, err := b.s.Get(ctx, b.path+"/"+item.Flag)
	switch {
	case err == nil:
		e.Taken, e.Consumer, e.Session, e.TakenSince = true, string(identity), stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
	case errors.Is(err, zk.ErrNoAuth): // its ACL does not let this client read it
		e.Taken = true
	case !errors.Is(err, zk.ErrNoNode):
		return Entry{}, err
	}
	return e, nil
}

// browse calls f with the items of each segment, in order, until f wants no more. It
// creates nothing and sets no watch.
func (q *Queue) browse(ctx context.Context, f func(*browsed) (more bool, err error)) error {
	if err := q.Check(ctx); err != nil {
		return err
	}
	ctx, done := q.Client.Bind(ctx)
	defer done()
	seen := false // a segment, of which there is one in each queue
	see := func(seg *browsed) (bool, error) {
		seen = true
		return f(seg)
	}
	next := int64(0)
	return q.Client.InSessions(ctx, func(s *session.Session) (err error) {
		next, err = q.browseIn(ctx, s, next, see)
		if err == nil && !seen {
			err = q.checkUse(ctx, s)
		}
		return err
	})
}

// checkUse returns ErrUnused or ErrPathInUse unless there is a queue.
func (q *Queue) checkUse(ctx context.Context, s *session.Session) error {
	if q.isDead {
		return nil
	}
	_, err := s.Exists(ctx, q.Abs()+queuelog.RootName)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	data, _, err := s.Get(ctx, q.Abs())
	switch {
	case err != nil:
		return errs.Unused(err)
	case len(data) > 0:
		return cmp.Or(layout.CheckQueuePath(data), errs.ErrUnused)
	}
	return errs.ErrUnused
}

// browseIn is browse in one session, beginning with the segment from. If it fails, next
// is the segment with which to go on.
func (q *Queue) browseIn(ctx context.Context, s *session.Session, from int64, f func(*browsed) (bool, error)) (next int64, err error) {
	log := NewQueueLog(s, q.Abs())
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
