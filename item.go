package zkrecipes

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// ItemID identifies an item for good: 16 random bytes, as text. The producer makes it,
// and it stays the same over all deliveries.
type ItemID string

// Item is an item that a consumer has claimed. The consumer has it until Ack or Nack, or
// until the claim is lost: with the session, or because somebody deletes the claim.
// Then the item is handed to another consumer, from its old position. An Item is safe
// for concurrent use, Data aside.
//
// The claim is a grant like a Lease, and what this process knows of it is best effort
// in the same way. Two things are proof. An Ack succeeds only while the item is
// claimed, and so do its operations. And a store that refuses a Token lower than the
// last one refuses a consumer that has lost the item and does not know it yet.
type Item struct {
	ID   ItemID
	Data []byte
	// Attempt counts how often the item was taken, this time included. A znode that
	// somebody else created below the item's and deleted again counts, too. A claim for a call
	// that had ended by then does not, unless the claim ends with its session.
	Attempt int
	// Failure says why the item is a dead letter. It is the zero value for other items.
	Failure Failure

	takenItem *queue.Item // nil: no queue has returned it
	lease     *Lease
}

// newItem returns an item that a consumer has just got.
func newItem(it *queue.Item) *Item {
	data, failure := it.LetGo()
	return &Item{
		ID: ItemID(it.Claim.ID()), Data: data, Attempt: it.Claim.Attempt, Failure: Failure(failure),
		takenItem: it, lease: newLease(it.Handle),
	}
}

// Failure says why an item is a dead letter. It is the zero value for other items, for one
// that was moved by a version of this library that kept no Failure, and for one too large
// for a request with a Failure.
type Failure struct {
	// Queue is the absolute path of the queue that the item comes from, which includes the
	// Options.Prefix of its users. So it is the same for all clients.
	Queue string
	// Attempts is how often the item was taken there, as in Item.Attempt.
	Attempts int
	// Text is the error that the handler given to Serve returned for the last attempt,
	// with the stack if the handler panicked. It is cut after 4,096 bytes. If no handler
	// has failed, because the last consumer died or gave the item back, or because the item
	// was buried, the text says so.
	Text string
}

// Path returns the path of the queue as the caller gave it, without Options.Prefix. It is
// empty for a zero Item.
func (it *Item) Path() string { return it.held().Path() }

// held returns the lease of the claim, nil if there is none.
func (it *Item) held() *Lease {
	if it == nil {
		return nil
	}
	return it.lease
}

// check refuses an item that no queue has returned, and a nil context.
func (it *Item) check(ctx context.Context) error {
	switch {
	case it.held().isZero():
		return errZeroValue
	case ctx == nil:
		return errs.ErrNilContext
	}
	return nil
}

// Context returns a context that ends with parent or with the claim, which Ack and Nack end, too.
// If the item was buried, its cause is ErrLost, and ErrItemGone, too, once a server has answered.
// See Lease.Context.
func (it *Item) Context(parent context.Context) context.Context { return it.held().Context(parent) }

// Err returns nil while the item is claimed, and from then on why it is not. See Lease.Err.
func (it *Item) Err() error { return it.held().Err() }

// ValidUntil returns the time until which the claim is known to be held if the servers
// send nothing more. See Lease.ValidUntil.
func (it *Item) ValidUntil() time.Time { return it.held().ValidUntil() }

// Token returns the fencing token of the claim. It grows with every claim in the queue,
// and so with every delivery of this item. A store should compare it per ItemID, never per
// queue: consumers of several items hold at the same time, and the one with the lower Token
// is right for its item.
func (it *Item) Token() Token { return it.held().Token() }

// Ack removes the item for good and carries out ops, all in one transaction. So what ops
// do in ZooKeeper is done exactly once, however often the item was delivered. To put
// items into another queue, use AckPut. ctx may be the item's own. Ack blocks until a
// server answers or ctx ends.
//
// nil means that it was done: now, or before if a reply was lost. But without ops, if both the
// reply and the claim were lost, the item may be delivered once more, or be buried.
//
// If somebody has created znodes below the item's, the servers cannot delete it. Then a znode
// beside it, of the same name and ".done", marks it as acked, and an error is logged that names
// them.
//
//   - ErrLost is returned if the item is no longer claimed. Nothing was done. The error is
//     ErrItemGone, too, if the item was buried with its claim, or has otherwise gone since: then
//     it is not delivered again.
//   - An operation's own error, which names the operation, is returned if the servers
//     refuse it. Nothing was done, and the item is still claimed.
//   - ErrTooLarge is returned for a request above the servers' limit (Options.MaxBuffer). The item
//     is still claimed, unless the error is ErrUncertain, too.
//   - ErrSessionFull is returned if the session has no room for the ephemeral znodes that ops
//     create, or for the one of its own that an Ack with ops may need. The item is still claimed.
//   - ErrUncertain is returned if the session ended before the reply came, if the reply
//     was lost and the queue deleted, or if ctx ended before the outcome was known. In
//     the last case the Ack is completed in the background, and Err then tells the
//     outcome: ErrReleased if it was done, nil if it was not and the item is still
//     claimed, ErrLost if the claim was lost before anybody could tell.
//   - ErrReleased is returned if the item was acked or given back before.
//
// Ack costs one request and one commit. With ops it costs one of each more, the first time in a
// session.
func (it *Item) Ack(ctx context.Context, ops ...Op) error {
	if err := it.check(ctx); err != nil {
		return it.held().fail("ack an item of", err)
	}
	mapped, err := mapOps(it.takenItem.Queue.Client, ops, false)
	if err == nil {
		cloneData(mapped) // an ack may go on in the background
		err = it.takenItem.Ack(ctx, mapped)
	}
	return it.held().fail("ack an item of", err)
}

// Nack gives the item back, in its old position. The next consumer gets it, with an
// Attempt one higher. Nack blocks until a server answers or ctx ends. While disconnected
// it returns at once, and the item is given back in the background or with its session.
//
// nil means that the item was given back, or will be. ctx's error means that it will
// be. In both cases an Ack that is still under way may be carried out instead. ErrLost
// is returned if the item was lost before, and ErrReleased if it was acked. A second
// Nack returns what the first did.
//
// Nack costs one request and one commit.
func (it *Item) Nack(ctx context.Context) error {
	if err := it.check(ctx); err != nil {
		return it.held().fail("nack an item of", err)
	}
	return it.held().fail("nack an item of", it.takenItem.Nack(ctx))
}

// AckPut acks the item, puts items into another queue, next to each other and in this
// order, and carries out ops, in one transaction: either all of it is done, or nothing. So
// each step of a pipeline hands its result on exactly once, however often its items are
// delivered. A handler given to Serve may call AckPut. Items that are put into the item's
// own queue come at the end, and their attempts begin anew. Without items, AckPut is an Ack.
//
// The other queue must belong to the same Client. QueueOptions.MaxLen must not be set:
// AckPut does not wait for room. To put into a bounded queue all the same, give a Queue
// without MaxLen. MaxItemBytes applies. AckPut blocks until a server answers or ctx
// ends.
//
// nil means that it was done, once: now, or before if a reply was lost.
//
//   - ErrLost is returned if the item is no longer claimed. Nothing was done.
//   - The servers' error, which names the other queue, is returned if they refuse to put
//     the items. Nothing was done, and the item is still claimed. That is so, too, if the
//     items are too large, which is refused before anything is sent.
//   - ErrUncertain is returned as by Ack, together with the IDs of the items.
//   - ErrSessionFull is returned as by Ack, also without ops.
//   - ErrReleased is returned if the item was acked or given back before.
//   - An operation's own error, which names the operation, is returned as by Ack.
//
// On any error but ErrUncertain there are no IDs. AckPut costs one request and one
// commit. The first one in a session costs one of each more, and three reads more for a
// queue that the Client has not used yet.
func (it *Item) AckPut(ctx context.Context, to *Queue, items [][]byte, ops ...Op) ([]ItemID, error) {
	if err := it.check(ctx); err != nil {
		return nil, it.held().fail("ack an item of", err)
	}
	ids, err := it.ackAndPut(ctx, to.core(), queue.NewItems(items), ops)
	return ids, it.held().fail("ack an item of", err)
}

func (it *Item) ackAndPut(ctx context.Context, to *queue.Queue, items []queuelog.Item, ops []Op) ([]ItemID, error) {
	if err := it.takenItem.CheckPut(ctx, to, items); err != nil {
		return nil, err
	}
	mapped, err := mapOps(it.takenItem.Queue.Client, ops, false)
	if err != nil {
		return nil, err
	}
	cloneData(mapped) // as in Ack
	return idsUnless(it.takenItem.AckPut(ctx, to, items, mapped), items)
}

// idsUnless returns the IDs of items that were put, or that may have been.
func idsUnless(err error, items []queuelog.Item) ([]ItemID, error) {
	if err != nil && !errors.Is(err, ErrUncertain) {
		return nil, err
	}
	ids := make([]ItemID, len(items))
	for i, it := range items {
		ids[i] = ItemID(it.ID)
	}
	return ids, err
}
