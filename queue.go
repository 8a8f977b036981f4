package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/queue"
)

// The recipe: a producer appends to a log of znodes (internal/queuelog). A consumer claims the first
// free item at its turn in a line, by an ephemeral znode below the item. An ack deletes both in one
// transaction (internal/queue: put.go, turn.go, claim.go, ack.go).

// Queue is a durable queue: first in, first out. It hands each item to one consumer at
// a time, until that consumer acks it. Use it for coordination: thousands of small
// items, hundreds a second, that are handed out in order and must not be lost. It is
// neither a log nor a message broker. For more than that, use one of those.
//
// Where several Clients take quickly and there are plenty of items, they claim in nearly this
// order: each chooses among the first hundred, so that they do not collide.
//
// A Queue is only a name. Values are safe for concurrent use. Its items are stored in segments of
// about a hundred, which the costs of its methods count.
//
// A queue stays even when it is idle and empty: clients and servers delete idle locks, but not
// queues. To get rid of a queue, delete its path with everything below it.
type Queue struct{ itemQueue *queue.Queue } // nil: the zero Queue

// QueueOptions are the settings of a Queue. nil and the zero value work. All processes that use a
// queue should have the same MaxLen, MaxAttempts, DeadLetter and MaxItemBytes. Workers,
// DrainTimeout, HandlerTimeout and Backoff may differ.
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
	// MaxItemBytes is the largest Data that may be put. 0 means as much as a request has room for
	// (Options.MaxBuffer).
	MaxItemBytes int

	// Workers is how many items Serve works on at the same time. 0 means one. The most is 100,000.
	Workers int
	// DrainTimeout is how long the handlers of Serve may go on after its context has ended, or
	// after Client.Shutdown was called. Then their contexts end, too, with context.DeadlineExceeded
	// as their cause. Their items stay claimed until they return. 0 means as long as they need,
	// which only Shutdown's deadline bounds then. Use that deadline to bound the end of the
	// process. Use DrainTimeout if the process goes on, or to leave handlers some time to stop
	// before that deadline.
	DrainTimeout time.Duration
	// HandlerTimeout is how long a handler of Serve may work on an item. Then its context
	// ends, with context.DeadlineExceeded as its cause. A handler that has not returned a
	// second later has failed: its item is given back after Backoff, or moved to the dead
	// letters, an Error record says so, and its worker takes no other item until the handler
	// has returned. So if MaxAttempts is not below the number of all workers, one item whose
	// handlers hang can stop the queue: bury it, and restart the processes. 0 means any time.
	HandlerTimeout time.Duration
	// Backoff returns how long Serve waits before it gives back an item whose handler
	// failed. attempt is the item's Attempt. nil means 100 ms, doubled with each attempt,
	// up to 30 s.
	Backoff func(attempt int) time.Duration
}

// NewQueue returns the queue with that path. It sends nothing. An invalid path and
// invalid options are reported on first use.
func NewQueue(c *Client, path string, opts *QueueOptions) *Queue {
	var cfg queue.Options
	if opts != nil {
		cfg = queue.Options(*opts)
	}
	core := c.core()
	return &Queue{queue.New(core, path, cfg, queue.Hooks{
		Acquire: func(ctx context.Context, path, op string) (context.Context, func(*hold.Grant, error)) {
			ctx, traced := startAcquire(ctx, core, RecipeQueue, path, op)
			return ctx, func(g *hold.Grant, err error) { traced.end(g, fail(op, path, err)) }
		},
		Logged: func(id string) any { return ItemID(id) },
	})}
}

// core returns the queue itself. That of the zero Queue refuses all calls.
func (q *Queue) core() *queue.Queue {
	switch {
	case q == nil:
		return nil
	case q.itemQueue == nil:
		return &queue.Queue{}
	}
	return q.itemQueue
}

func (q *Queue) fail(op string, err error) error { return fail(op, q.Path(), err) }

// Path returns the path as the caller gave it, without Options.Prefix.
func (q *Queue) Path() string {
	if q == nil || q.itemQueue == nil {
		return ""
	}
	return q.itemQueue.Path
}

// Put puts an item at the end: behind every item whose Put had returned before its own Put
// began.
//
// Put blocks until a server answers, until ctx ends or until the Client is closed. With
// MaxLen it also blocks until there is room: producers wait in a line, first come,
// first served, and one is woken at a time. If the session ends, a producer waits in the next
// one, at the end of the line. A producer that is the first and leaves the room that it needs
// unused for a second, as if its process were dead, goes to the end of the line, too.
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
// Put costs one request and one commit, and one request more each time that other producers fill
// the open segment first. While they do so faster than requests travel, Put does not get through.
// With MaxLen it costs one request and one commit more, a listing of each segment that has changed,
// and two requests if other producers are ahead. After 300 ms behind them, it costs a listing of
// the line and up to four requests more. None of this depends on how many items there are.
//
// The first use of a queue in a session costs three reads more, the first put one request and one
// commit, and the first put with MaxLen a listing of each segment, one after the other. A Client
// that puts into so many queues that its znodes for them fill half of the session (ErrSessionFull)
// sends two requests and two commits more for each put.
func (q *Queue) Put(ctx context.Context, data []byte) (ItemID, error) {
	ids, err := q.putTraced(ctx, [][]byte{data})
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
	ids, err := q.putTraced(ctx, items)
	return ids, q.fail(putInto, err)
}

// putInto is the operation of Put and PutAll in errors.
const putInto = "put into"

// putTraced puts items in one transaction. An item's ID is known before the item is sent, so
// the IDs are returned with ErrUncertain, too. To the Trace, a put that may wait for room is an
// acquisition, which holds nothing.
func (q *Queue) putTraced(ctx context.Context, datas [][]byte) ([]ItemID, error) {
	core := q.core()
	if err := core.CheckPut(ctx, len(datas)); err != nil {
		return nil, err
	}
	if len(datas) == 0 {
		return []ItemID{}, nil
	}
	items := queue.NewItems(datas)
	var traced *acquisition
	if core.IsBounded() {
		ctx, traced = startAcquire(ctx, core.Client, RecipeQueue, q.itemQueue.Path, "put")
	}
	err := core.Put(ctx, items)
	traced.end(nil, q.fail(putInto, err))
	return idsUnless(err, items)
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
// On any error nothing is claimed, or what was claimed is given back. If ctx ends while a claim is
// under way, what it claims goes to the Client's next Take, TakeN or worker of Serve. If none
// comes within 50 ms, it is given back, and that counts as no attempt.
//
// The item is the caller's until Ack or Nack, or until the claim is lost. The items of a
// process that dies are given back when its session ends.
//
// Take costs four requests and one commit if there are more items than consumers that wait in line,
// and three requests and one commit more if another consumer was quicker. Each segment in which no
// item is free, and that has changed since the session's last take, costs one request more. A
// consumer that has to wait in line costs five requests and one commit more, and one request for
// each time that it wakes as the first. The second and third in line look for items, too, once they
// have waited for 300 ms: so a consumer that dies at the head of the line holds up an item for less
// than a second. Where consumers wait for longer than that, an item costs 9 requests in all, its
// put and its ack included, if there is one of them, and up to 23 if there are several.
func (q *Queue) Take(ctx context.Context) (*Item, error) {
	return theOne(q.TakeN(ctx, 1))
}

func theOne(items []*Item, err error) (*Item, error) {
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// TakeN is like Take but claims several items at once, in one transaction: as many as are
// free, at least one and at most n. However large n is, they are at most 100. Each item after the
// first costs one request more.
func (q *Queue) TakeN(ctx context.Context, n int) ([]*Item, error) {
	return q.acquire(ctx, "take", n, (*queue.Queue).Take)
}

// TryTake claims the first free item, or returns ErrEmpty if none is free. It does not wait for a
// turn, so it may get an item for which others wait. If others are quicker, it chooses among the
// first hundred, and returns ErrEmpty if they are quicker eight times. What it knows of the queue
// may be a moment old. TryTake blocks like Mutex.TryLock, and returns the errors that Take returns.
// If it returns ctx's error, nothing is claimed, or what was claimed is given back, and that counts
// as no attempt.
//
// It costs one request if nothing is free, and none if nothing has changed since the last
// try. With an item it costs three requests and one commit.
func (q *Queue) TryTake(ctx context.Context) (*Item, error) {
	return theOne(q.acquire(ctx, "try take", 1, func(q *queue.Queue, ctx context.Context, _ int) ([]*queue.Item, error) {
		it, err := q.TakeNow(ctx)
		return []*queue.Item{it}, err
	}))
}

// acquire calls take, which claims up to n items or returns an error. To the Trace, each item is
// an acquisition of its own, of which the first one is the call.
func (q *Queue) acquire(ctx context.Context, op string, n int, take func(*queue.Queue, context.Context, int) ([]*queue.Item, error)) ([]*Item, error) {
	err := q.core().Check(ctx)
	if err == nil && n < 1 {
		err = fmt.Errorf("n is %d items: must be at least 1", n)
	}
	if err != nil {
		return nil, q.fail("take from", err)
	}
	inner, traced := startAcquire(ctx, q.itemQueue.Client, RecipeQueue, q.itemQueue.Path, op)
	var taken []*queue.Item
	for len(taken) == 0 && err == nil {
		if taken, err = take(q.itemQueue, inner, n); err == nil {
			taken = slices.DeleteFunc(taken, func(it *queue.Item) bool { return !it.Seen() }) // claims may have ended by now
		}
	}
	if err != nil {
		err = q.fail("take from", err)
		traced.end(nil, err)
		return nil, err
	}
	items := make([]*Item, len(taken))
	for i, it := range taken {
		if i > 0 {
			_, traced = startAcquire(ctx, q.itemQueue.Client, RecipeQueue, q.itemQueue.Path, op)
		}
		traced.end(it.Handle.Grant, nil)
		items[i] = newItem(it)
	}
	return items, nil
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

func newEntry(e queue.Entry) Entry {
	return Entry{
		ID: ItemID(e.ID), Data: e.Data, Since: e.Since, Attempts: e.Attempts, Failure: Failure(e.Failure),
		Taken: e.Taken, Consumer: e.Consumer, Session: e.Session, TakenSince: e.TakenSince,
	}
}

// Len returns how many items there are, taken ones included. The number may be a moment old.
// ErrUnused is returned if there is no queue, and ErrPathInUse if the path is another recipe's. The
// DeadLetters of a queue that has had none are empty. Len blocks until the servers answer. It costs
// one request, and one for each segment.
func (q *Queue) Len(ctx context.Context) (int, error) {
	n, err := q.core().Len(ctx)
	return n, q.fail("count", err)
}

// Peek returns the item that the next Take gets if nobody else is quicker. An item that
// cannot be claimed, because somebody has created a znode named "c" below it, is returned,
// too, though Take gets another. Peek blocks until the servers answer. ErrEmpty is
// returned if no item is free. Without a queue, it is ErrUnused, too. Peek costs one request,
// one for each segment up to the item's, and one for the item.
func (q *Queue) Peek(ctx context.Context) (Entry, error) {
	e, err := q.core().Peek(ctx)
	return newEntry(e), q.fail("peek into", err)
}

// Items returns an iterator over the items, taken ones included, in the order in which they were
// put. After an error the iteration ends. For a path without a queue, see Len. Items that come or
// go in the meantime may or may not be included. It costs one request, one for each segment, one
// for each item, and one more for each item that is taken.
func (q *Queue) Items(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range q.core().Entries(ctx) {
			if !yield(newEntry(e), q.fail("list", err)) {
				return
			}
		}
	}
}

// Find returns the item with that ID, taken or not, or ErrItemGone if there is none. Use it after
// ErrUncertain of a Put. It blocks until the servers answer. It reads no other item: it costs two
// requests, one for each segment up to the item's, one for the item, and one more if it is taken.
func (q *Queue) Find(ctx context.Context, id ItemID) (Entry, error) {
	e, err := q.core().Find(ctx, string(id))
	return newEntry(e), q.fail("find an item of", err)
}

// Remove removes an item that no consumer has, for good. It blocks until the servers
// answer or ctx ends. Consumers and producers may be at work meanwhile. If somebody has
// created znodes below the item, it is marked as done instead, as by Ack, and the error
// that is logged names them.
//
// nil means that this call removed the item: no consumer has acked it.
//
//   - ErrItemTaken is returned if a consumer has the item. It stays.
//   - ErrItemGone is returned if there is no such item. It may have been acked.
//   - ErrUncertain is returned if the session or ctx ended before the reply came. The
//     item may be gone or not.
//
// Remove costs two requests, one for each segment up to the item's, and one request and one commit.
// It costs one of each more the first time in a session, and if the item was the last one of a
// segment.
func (q *Queue) Remove(ctx context.Context, id ItemID) error {
	return q.fail("remove an item of", q.core().Remove(ctx, string(id)))
}

// Bury moves an item to the dead letters, with a Failure that names the client that buried it, also
// while a consumer has it: so that an item whose consumer hangs does not come back, and hang the
// next one. The consumer's claim ends in the same transaction. The context of its Item ends with
// ErrLost, at the latest after a tenth of its session timeout if it is connected, and Ack returns
// ErrItemGone. What the consumer has begun goes on until then. Bury blocks until the servers
// answer or ctx ends. Consumers and producers may be at work meanwhile.
//
// nil means that this call moved the item: no consumer has acked it. If somebody has created
// znodes below the item, it is marked as done, as by Ack.
//
//   - ErrItemGone is returned if there is no such item. It may have been acked, or moved.
//   - ErrItemTaken is returned if somebody else has created a znode named "c" below the item. It
//     stays.
//   - ErrUncertain is returned if the session or ctx ended before the reply came. The item may
//     be a dead letter or not.
//   - ErrContended is returned if the item was given back and taken again sixteen times
//     meanwhile. It stays.
//
// Dead letters cannot be buried. If a part of a claim was deleted by somebody else, Bury waits
// until its session has deleted the rest.
//
// Bury costs two requests, one for each segment up to the item's, two reads, three if a consumer
// has the item, and one request and one commit. The first time in a session it costs what the first
// Put into the dead letters costs, too.
func (q *Queue) Bury(ctx context.Context, id ItemID) error {
	return q.fail("bury an item of", q.core().Bury(ctx, string(id)))
}

// Purge removes all items that no consumer has, for good, and returns how many it
// removed. Items that are taken stay, and those that are put meanwhile may. It blocks
// until the servers answer or ctx ends. Consumers and producers may be at work meanwhile.
// With an error, removed is the number of those that are known to be removed.
//
// Purge costs two requests, and for each segment three requests and two commits.
func (q *Queue) Purge(ctx context.Context) (removed int, err error) {
	removed, err = q.core().Purge(ctx)
	return removed, q.fail("purge", err)
}

// DeadLetters returns the queue of the dead letters of q, with any number of attempts
// and otherwise without options. A dead letter has the ID and the Data of the item, and a
// Failure. Its own Attempt and Since begin anew. DeadLetters sends nothing.
func (q *Queue) DeadLetters() *Queue {
	if q == nil {
		return nil
	}
	return &Queue{q.core().DeadLetters()}
}

// Redrive moves up to n dead letters of this queue back to its end, the oldest ones
// first, each in one transaction. They keep ID and Data, and their attempts begin anew.
// It returns how many were moved. Dead letters that a consumer has, and those of other
// queues with the same DeadLetter path, stay. One without a Failure counts as this
// queue's. Letters that arrive meanwhile stay, so a huge n moves what there is.
//
// Redrive blocks until the servers answer or ctx ends. With MaxLen it also blocks, as
// Put does, until there is room. It returns the errors of Put. A letter that is too large
// does not hold up those behind it. With an error, moved is the number of those that are
// known to be moved, and after ErrUncertain one more may be.
//
// Redrive costs two requests and one for each segment of dead letters, and for each letter one more
// than a Put. It costs one request and one commit more for each of these segments that it empties.
func (q *Queue) Redrive(ctx context.Context, n int) (moved int, err error) {
	moved, err = q.core().Redrive(ctx, n)
	return moved, q.fail("redrive", err)
}

// Serve takes items and calls handler for each, for QueueOptions.Workers items at a
// time, until ctx ends. Then it takes no more, lets the handlers finish, and returns nil.
// Client.Shutdown ends Serve in the same way, but then it returns ErrClosed.
// The handlers' contexts do not end with ctx. If QueueOptions.DrainTimeout ends them, Serve
// returns ctx's error, or ErrClosed after a Shutdown, once the handlers have returned. If no
// item is at work when ctx ends, Serve returns at once. Serve waits for the acks of their items for a
// session timeout at most, and for what is to be given back for a tenth of a second: what the
// servers have not answered by then goes on in the background.
//
// The context of a handler ends in these cases only. context.Cause tells which:
//
//   - ErrLost: the item was lost, with the session or to somebody who deleted its claim.
//   - ErrClosed: the Client was closed, or the context of Client.Shutdown has ended.
//   - ErrReleased: the handler has acked the item, or given it back.
//   - context.DeadlineExceeded: DrainTimeout has passed since ctx ended or Shutdown was
//     called, or HandlerTimeout has passed since the handler was called.
//
// After the first two, another consumer gets the item, unless it was buried (ErrItemGone). So
// stop the work, and write nothing.
//
// What a handler returns within a second after its HandlerTimeout counts as ever. After that,
// another consumer may get the item while the handler is still at work on it, and its result is
// ignored, and logged. Until it returns, its worker takes no other item: Serve never runs more
// handlers than Workers, and takes nothing when none of them returns. Serve and Shutdown wait for
// it as for any other handler.
//
// If handler returns nil, Serve acks the item. An item that the handler has acked
// itself, with operations or by AckPut, is left alone. If handler fails or panics, the
// item stays taken for QueueOptions.Backoff, and is then given back: it is the first to
// be taken again. Meanwhile the worker goes on with the items behind it. Once sixteen
// handlers for each worker have failed and none has succeeded, each worker waits for its
// item's Backoff instead: so an outage uses up the attempts of few items. Fewer than a
// thousand items stay taken like this: with more than 500 of them, the next one stays for less
// than its Backoff, with 750 for half of it. If no item may overtake another, retry in the handler.
// Items that stay taken when ctx ends are given back as soon as no worker takes an item any
// more: within a round trip while connected. An item that fails when it is taken for the
// MaxAttempts-th time is moved to the dead letters at once, together with the handler's error,
// see Failure. If the handler's process dies instead, the next consumer moves it. If it cannot
// be moved, it stays taken for the default back-off, and Serve goes on. Failures are
// logged to the Logger, panics with their stack. If Backoff panics, the default is used.
//
// Serve goes on when the connection or an item is lost, and when the session ends. Any
// other error ends all workers, once their handlers have finished:
//
//   - ErrClosed is returned if the Client was closed or shut down.
//   - ErrEvicted is returned if somebody else deleted the Client's znode in the
//     consumers' line.
//   - The servers' error is returned if they refuse a request.
//
// The workers, like all calls of the Client that wait for items of the queue, share a
// place in the consumers' line. An item costs what a Take and an Ack cost.
func (q *Queue) Serve(ctx context.Context, handler func(context.Context, *Item) error) error {
	err := q.core().Check(ctx)
	if err == nil && handler == nil {
		err = errors.New("nil function")
	}
	if err == nil {
		err = q.itemQueue.Serve(ctx, func(ctx context.Context, it *queue.Item) error { return handler(ctx, newItem(it)) })
	}
	return q.fail("serve", err)
}
