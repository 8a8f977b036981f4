package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// Queue is a durable queue: first in, first out, each item to one consumer at a
// time, until that one acks it. It is for coordination: thousands of small items,
// hundreds a second, that must not be lost and must be handled in order. It is no
// log and no broker; for more than that there are others.
//
// It is only a name. Values are safe for concurrent use.
//
// A queue stays, also when it is idle and empty: the servers do not delete it, as
// they do with locks. Who wants it gone deletes the path with all below it.
type Queue struct {
	c           *Client
	path        string
	opts        QueueOptions
	consumers   *line
	producers   *line // where there is a bound
	claims      *line // of the claims, which stand in no line
	segmentSize int64 // after how many creates a segment is sealed
}

// QueueOptions are the settings of a Queue; nil and the zero value work. All who
// use a queue should give the same.
type QueueOptions struct {
	// MaxLen is how many items there may be, taken ones included; 0: any number. It
	// binds those who put with it. While puts with a bound and puts without are
	// under way together there may be more.
	MaxLen int
	// MaxAttempts is how often an item may be taken. The consumer that takes it once
	// more moves it to the dead letters instead. A Take whose context ends while the
	// servers carry it out counts, too. 0: 16; negative: any number.
	MaxAttempts int
	// DeadLetter is the path of the queue of the dead letters: items that were taken
	// too often, with the same ID and Data. Empty: the queue's own path and "-dead".
	// Nothing is ever dropped; who reads them gives that queue other MaxAttempts.
	DeadLetter string
	// MaxItemBytes is the largest Data that may be put; 0: as much as a request to
	// the servers has room for, a little less than 1,048,575 bytes.
	MaxItemBytes int

	// Workers is how many items Serve works on at the same time; 0: one.
	Workers int
	// Backoff is how long Serve waits before it gives an item back whose handler
	// failed, by its Attempt. nil: 100 ms, twice as much with each attempt, up to
	// 30 s.
	Backoff func(attempt int) time.Duration
}

const defaultMaxAttempts = 16

// NewQueue returns the queue with that path. It sends nothing; a path that is
// none, and options that cannot work, are errors at the first use.
func NewQueue(c *Client, path string, opts *QueueOptions) *Queue {
	q := &Queue{c: c, path: path, segmentSize: queuelog.SegmentSize}
	if c != nil && c.segment > 0 {
		q.segmentSize = c.segment
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
	sub := func(name string) *line {
		return &line{
			c: c, path: path + name, recipe: "queue", kinds: lockKinds, rejoins: true,
			blocks: everyoneBlocks, foreign: isRWLockKind,
		}
	}
	q.consumers, q.producers, q.claims = sub("/line"), sub("/room"), sub("")
	return q
}

func (q *Queue) abs() string { return q.c.abs(q.path) }

func (q *Queue) check(ctx context.Context) error {
	if q == nil || q.consumers == nil {
		return errors.New("not made by NewQueue")
	}
	if err := q.c.check(ctx, q.path); err != nil {
		return err
	}
	switch {
	case q.opts.MaxLen < 0:
		return fmt.Errorf("QueueOptions.MaxLen is %d", q.opts.MaxLen)
	case q.opts.MaxItemBytes < 0:
		return fmt.Errorf("QueueOptions.MaxItemBytes is %d", q.opts.MaxItemBytes)
	case q.opts.Workers < 0:
		return fmt.Errorf("QueueOptions.Workers is %d", q.opts.Workers)
	case q.opts.DeadLetter == q.path:
		return errors.New("QueueOptions.DeadLetter is the queue itself")
	}
	if err := q.c.checkPath(q.opts.DeadLetter); err != nil {
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

// Put puts an item at the end. Items are handed out in the order in which the
// servers carried out the puts: so what was put after another Put had returned
// comes behind it.
//
// It blocks until a server answers, with MaxLen until there is room, until ctx
// ends or the Client is closed (ErrClosed). With MaxLen producers wait in a line,
// first come, first served, and one is woken at a time; one whose znode there is
// deleted by somebody else gets ErrEvicted.
//
// nil: the item is there, once. ErrUncertain: the session ended before the reply
// came, or ctx did, or the reply was lost and the queue deleted; and it may be there
// or not: the ID tells, if one looks (see Items), unless somebody has acked it. Any other error: it was not put,
// and the ID is empty. An item that is too large is refused before anything is
// sent.
//
// Cost: one request and one commit; with MaxLen one request and one commit more,
// a listing of each segment that has changed, and two requests more where others
// are before. The first use of a queue in a session costs three reads, the first put
// one request and one commit more.
func (q *Queue) Put(ctx context.Context, data []byte) (ItemID, error) {
	ids, err := q.put(ctx, [][]byte{data})
	if len(ids) == 0 {
		return "", q.fail("put into", err)
	}
	return ids[0], q.fail("put into", err)
}

// PutAll puts items at the end, next to each other and in this order: all of
// them, or none. They must fit into one request; else, or where there are more
// than MaxLen, they are refused before anything is sent. It is like Put
// otherwise, and costs as much; with no items it does nothing.
func (q *Queue) PutAll(ctx context.Context, items ...[]byte) ([]ItemID, error) {
	ids, err := q.put(ctx, items)
	return ids, q.fail("put into", err)
}

// Take waits for its turn and for an item, and claims that: the first one that
// nobody has. It blocks until then, until ctx ends (errors.Is finds its error and
// its cause), the Client is closed (ErrClosed) or its znode in the consumers' line
// is deleted by somebody else (ErrEvicted); through disconnections, and through
// the end of the session, after which it stands at the end of the line. When the
// queue is deleted as a whole it waits for items of the next one.
//
// The item is the caller's until Ack or Nack, or until the claim is lost. A
// process that dies gives its items back with the end of its session. On any
// error nothing is claimed, or what was claimed is given back.
//
// Cost: four requests and two commits where an item is there and nobody waits,
// three requests more for who has to stand in line, one for each time that it
// wakes as the first. Items that others have had for long, in older segments,
// cost one more short listing for each such segment.
func (q *Queue) Take(ctx context.Context) (*Item, error) {
	if err := q.check(ctx); err != nil {
		return nil, q.fail("take from", err)
	}
	ctx, done := q.c.bind(ctx)
	defer done()
	it, err := q.take(ctx, nil)
	return it, q.fail("take from", err)
}
