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

// Queue is a durable queue: first in, first out. It hands each item to one consumer at
// a time, until that consumer acks it. Use it for coordination: thousands of small
// items, hundreds a second, that are handed out in order and must not be lost. It is
// neither a log nor a message broker. For more than that, use one of those.
//
// Where several Clients take quickly and there are plenty of items, they claim in nearly this
// order: each chooses among the first items, so that they do not collide. docs/queue.md has
// figures.
//
// A Queue is only a name. Values are safe for concurrent use.
//
// A queue stays even when it is idle and empty: clients and servers delete idle locks, but not
// queues. To get rid of a queue, delete its path with everything below it.
type Queue struct {
	c           *line.Client
	path        string
	opts        QueueOptions
	isDead      bool // of dead letters; it exists from the first letter on
	consumers   *line.Line
	producers   *line.Line // if there is a bound
	claims      *line.Line // of the claims, which do not wait in any line
	segmentSize int64      // after how many creates a segment is sealed
}

// QueueOptions are the settings of a Queue. nil and the zero value work. All processes that use
// a queue should have the same MaxLen, MaxAttempts, DeadLetter and MaxItemBytes. Workers,
// DrainTimeout and Backoff may differ.
type QueueOptions struct {
	// MaxLen is how many items there may be, taken ones included. 0 means any number.
	// It binds only the producers that set it. While puts with and without a bound are
	// under way together, there may be more items.
	MaxLen int
	// MaxAttempts is how often an item may be taken. Then it is moved to the dead letters:
	// at once if a handler given to Serve fails, else by the consumer that takes it once
	// more. 0 means 16, and a negative value any number.
	MaxAttempts int
	// DeadLetter is the path of the queue of the dead letters, which DeadLetters returns.
	// Items that were taken too often are moved there, with the same ID and Data, and with
	// a Failure. Empty means the queue's own path followed by "-dead". Queues may share
	// one. Nothing is ever dropped.
	DeadLetter string
	// MaxItemBytes is the largest Data that may be put. 0 means as much as a request to
	// the servers has room for, a little less than 1,048,575 bytes.
	MaxItemBytes int

	// Workers is how many items Serve works on at the same time. 0 means one.
	Workers int
	// DrainTimeout is how long the handlers of Serve may go on after its context has
	// ended, or after Client.Shutdown was called. Then their contexts end, too, with
	// context.DeadlineExceeded as their cause. Their items stay claimed until they return.
	// 0 means as long as they need, which only Shutdown's deadline bounds then. To bound
	// the end of the process, use that deadline. To bound the end of one Serve in a process
	// that goes on, or to leave handlers some time to stop before that deadline, use
	// DrainTimeout.
	DrainTimeout time.Duration
	// Backoff returns how long Serve waits before it gives back an item whose handler
	// failed. attempt is the item's Attempt. nil means 100 ms, doubled with each attempt,
	// up to 30 s.
	Backoff func(attempt int) time.Duration
}

const defaultMaxAttempts = 16

// NewQueue returns the queue with that path. It sends nothing. An invalid path and
// invalid options are reported on first use.
func NewQueue(c *Client, path string, opts *QueueOptions) *Queue {
	return newQueue(c.core(), path, opts)
}

func newQueue(c *line.Client, path string, opts *QueueOptions) *Queue {
	q := &Queue{c: c, path: path, segmentSize: queuelog.SegmentSize}
	if c != nil && c.Segment > 0 {
		q.segmentSize = c.Segment
	}
	if opts != nil {
		q.opts = *opts
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

func (q *Queue) abs() string { return q.c.Abs(q.path) }

func (q *Queue) check(ctx context.Context) error {
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

func (q *Queue) fail(op string, err error) error {
	if q == nil {
		return fail(op, "", err)
	}
	return fail(op, q.path, err)
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (q *Queue) Path() string {
	if q == nil {
		return ""
	}
	return q.path
}

// Put puts an item at the end: behind every item whose Put had returned before its own Put
// began.
//
// Put blocks until a server answers, until ctx ends or until the Client is closed. With
// MaxLen it also blocks until there is room: producers wait in a line, first come,
// first served, and one is woken at a time. If the session ends, a producer waits in the next
// one, at the end of the line. A producer that is the first and leaves the room that it needs
// unused for 50 ms, as if its process were dead, goes to the end of the line, too. From then
// on, its session gets more time.
//
// nil means that the item is in the queue, once. An item that is too large is refused
// before anything is sent.
//
//   - ErrUncertain is returned if the session or ctx ended before the reply came, or if
//     the reply was lost and the queue deleted. The item may be in the queue or not.
//     Use Find to find out; an item that was acked is no longer there.
//   - ErrClosed is returned if the Client was closed.
//   - ErrEvicted is returned if somebody else deleted the producer's znode in the line.
//
// On any error but ErrUncertain the item was not put, and the ID is empty.
//
// Put costs one request and one commit. With MaxLen it costs one request and one commit
// more, a listing of each segment that has changed, and two requests more if other
// producers are ahead. If it waits for them for longer than 100 ms, it costs a listing of the
// line and two requests more. Neither depends on how many items there are. Each time that other
// producers fill the open segment first, Put costs one request more. If they do so faster
// than requests travel, Put sends up to 16 together, of which one succeeds. The first use
// of a queue in a session costs three reads, and the first put one request and one commit
// more.
func (q *Queue) Put(ctx context.Context, data []byte) (ItemID, error) {
	ids, err := q.put(ctx, [][]byte{data})
	if len(ids) == 0 {
		return "", q.fail(putInto, err)
	}
	return ids[0], q.fail(putInto, err)
}

// PutAll is like Put but puts several items, next to each other and in this order: all
// of them, or none. They must fit into one request, which is about ten thousand items
// without data. If they do not (ErrTooLarge), or if there are more than MaxLen, they are
// refused before anything is sent. PutAll costs as much as Put. With no items it does nothing.
func (q *Queue) PutAll(ctx context.Context, items ...[]byte) ([]ItemID, error) {
	ids, err := q.put(ctx, items)
	return ids, q.fail(putInto, err)
}

// Take waits for its turn and for an item, and claims the first item that nobody has.
// It blocks until then, through disconnections and through the end of the session,
// after which it waits at the end of the line. If the whole queue is deleted, Take
// waits for items of the next one.
//
//   - ctx's error is returned if ctx ended first. errors.Is finds it and its cause.
//   - ErrClosed is returned if the Client was closed.
//   - ErrEvicted is returned if somebody else deleted the Client's znode in the
//     consumers' line.
//
// On any error nothing is claimed, or what was claimed is given back.
//
// The item is the caller's until Ack or Nack, or until the claim is lost. The items of a
// process that dies are given back when its session ends.
//
// Take costs four requests and one commit if there is an item and nobody waits. A
// consumer that has to wait in line costs three requests and one commit more, and one
// request for each time that it wakes as the first. Where several Clients take and there
// are plenty of items, none waits in line: Take costs a listing, the claim and a read of the
// item, and two requests more if another consumer was quicker, about once in twelve.
//
// If the last Take came right after an Ack, within the time that the Ack took and 10 ms at
// most, the next Ack does part of the work, unless the Client still has other items. While
// nobody waits, it reads what the next Take needs, which saves a round trip. While others
// wait, it takes the next place in line along, which saves a request and a commit. If no
// Take comes within twice the time of an Ack, and 1 ms at least, the Client leaves that
// place.
func (q *Queue) Take(ctx context.Context) (*Item, error) {
	if err := q.check(ctx); err != nil {
		return nil, q.fail("take from", err)
	}
	items, err := q.acquire(ctx, "take", func(ctx context.Context) ([]*Item, error) { return q.takeN(ctx, 1) })
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// TakeN is like Take but claims several items at once, in one transaction: as many as are
// free, at least one and at most n. However large n is, they are at most 100.
func (q *Queue) TakeN(ctx context.Context, n int) ([]*Item, error) {
	err := q.check(ctx)
	if err == nil && n < 1 {
		err = fmt.Errorf("%d items", n)
	}
	if err != nil {
		return nil, q.fail("take from", err)
	}
	return q.acquire(ctx, "take", func(ctx context.Context) ([]*Item, error) { return q.takeN(ctx, min(n, maxBatch)) })
}

// TryTake claims the first free item, or returns ErrEmpty if none is free. It does not
// wait for a turn, so it may get an item for which others wait. If others are quicker, it
// chooses among the first items, and returns ErrEmpty if they are quicker eight times. What
// it knows of the queue may be a moment old. TryTake blocks until the servers answer (while
// disconnected, until there is a connection again or ctx ends), and returns the errors that
// Take returns. If it returns ctx's error, nothing is claimed, or what was claimed is given
// back, and counts as an attempt.
//
// It costs one request if nothing is free, and none if nothing has changed since the last
// try. With an item it costs three requests and one commit.
func (q *Queue) TryTake(ctx context.Context) (*Item, error) {
	if err := q.check(ctx); err != nil {
		return nil, q.fail("take from", err)
	}
	items, err := q.acquire(ctx, "try take", func(ctx context.Context) ([]*Item, error) {
		it, err := q.tryTake(ctx)
		if err == nil && it == nil {
			err = ErrEmpty
		}
		return []*Item{it}, err
	})
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// Entry describes an item in the queue. It gives no claim on the item.
type Entry struct {
	ID       ItemID
	Data     []byte
	Since    time.Time // when it was put, by the servers' clock
	Attempts int       // how often it was taken, see Item.Attempt
	Failure  Failure   // why it is a dead letter; the zero value for other items

	Taken bool // a consumer has it, which the next three describe
	// Consumer is the Options.Identity of its Client.
	Consumer   string
	Session    int64     // ZooKeeper's session id
	TakenSince time.Time // by the servers' clock
}

// ErrEmpty is returned by Peek and TryTake if no item is free.
var ErrEmpty = errors.New("no item is free")

// Len returns how many items there are, taken ones included. The number may be a moment
// old. ErrUnused is returned if there is no queue, and ErrPathInUse if the path is another
// recipe's. The DeadLetters of a queue that has had none are empty. Len blocks until the
// servers answer. It costs one request, and one for each segment of about a hundred items.
func (q *Queue) Len(ctx context.Context) (int, error) {
	n := 0
	err := q.browse(ctx, func(seg *browsed) (bool, error) {
		n += len(seg.items)
		return true, nil
	})
	if err != nil {
		return 0, q.fail("count", err)
	}
	return n, nil
}

// Peek returns the item that the next Take gets if nobody else is quicker. An item that
// cannot be claimed, because somebody has created a znode named "c" below it, is returned,
// too, though Take gets another. Peek blocks until the servers answer. ErrEmpty is
// returned if no item is free. Without a queue, it is ErrUnused, too. Peek costs one request,
// one for each segment up to the item's, and one for the item.
func (q *Queue) Peek(ctx context.Context) (Entry, error) {
	for e, err := range q.entries(ctx, func(e queuelog.Entry) bool { return !e.Claimed }) {
		if errors.Is(err, ErrUnused) {
			err = fmt.Errorf("%w: %w", ErrEmpty, err)
		}
		return e, q.fail("peek into", err)
	}
	return Entry{}, q.fail("peek into", ErrEmpty)
}

// Items returns an iterator over the items, taken ones included, in the order in which
// they were put. After an error the iteration ends. For a path without a queue, see Len. Items
// that come or go in the meantime may or may not be included. It costs one request, one for
// each segment of about a hundred items, one for each item, and one more for each item that
// is taken.
func (q *Queue) Items(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range q.entries(ctx, func(queuelog.Entry) bool { return true }) {
			if !yield(e, q.fail("list", err)) {
				return
			}
		}
	}
}

// Find returns the item with that ID, taken or not, or ErrItemGone if there is none. Use it
// after ErrUncertain of a Put. It blocks until the servers answer. It reads no other item:
// it costs two requests, one for each segment of about a hundred items up to the item's,
// one for the item, and one more if it is taken.
func (q *Queue) Find(ctx context.Context, id ItemID) (Entry, error) {
	var found Entry
	gone := ErrItemGone
	err := q.eachSegment(ctx, func(seg *browsed) (more bool, err error) {
		i := slices.IndexFunc(seg.items, func(e queuelog.Entry) bool { return e.ID() == string(id) })
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
	return found, q.fail("find an item of", cmp.Or(err, gone))
}

// entries reads the items that want selects, one after the other.
func (q *Queue) entries(ctx context.Context, want func(queuelog.Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
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
			yield(Entry{}, err)
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
func (b *browsed) entry(ctx context.Context, item queuelog.Entry) (Entry, error) {
	data, stat, err := b.s.Get(ctx, b.path+"/"+item.Name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{ID: ItemID(item.ID()), Since: time.UnixMilli(stat.Ctime), Attempts: queuelog.Claims(stat, item.Claimed)}
	e.Data, e.Failure = cutNote(item.Name, data)
	if !item.Claimed || stat.NumChildren == 0 {
		return e, nil
	}
	identity, stat, err := b.s.Get(ctx, b.path+"/"+item.Flag)
	switch {
	case err == nil:
		e.Taken, e.Consumer, e.Session, e.TakenSince = true, string(identity), stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
	case errors.Is(err, zk.ErrNoAuth): // its ACL does not let this client read it
		e.Taken = true
	case !errors.Is(err, zk.ErrNoNode): // given back in the meantime
		return Entry{}, err
	}
	return e, nil
}

// browse calls f with the items of each segment, in order, until f wants no more. It
// creates nothing and sets no watch.
func (q *Queue) browse(ctx context.Context, f func(*browsed) (more bool, err error)) error {
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
func (q *Queue) checkUse(ctx context.Context, s *line.Session) error {
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
		return cmp.Or(line.CheckQueuePath(data), ErrUnused)
	}
	return ErrUnused
}

// browseIn is browse in one session, beginning with the segment from. If it fails, next
// is the segment with which to go on.
func (q *Queue) browseIn(ctx context.Context, s *line.Session, from int64, f func(*browsed) (bool, error)) (next int64, err error) {
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
