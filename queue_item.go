package zkrecipes

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// ItemID names an item for good: 16 random bytes, as text. Its producer makes it,
// and it stays the same over all deliveries.
type ItemID string

// Item is an item that one consumer has, until it says Ack or Nack, or its claim
// is lost: with its session, or when somebody deletes the claim. Then the item is
// handed to another consumer, from its old position. It is safe for concurrent
// use, Data aside.
//
// The claim is a grant as a Lease is, and what this process knows of it is best
// effort in the same way. Two things are proof: an Ack succeeds only while the
// item is claimed, and its operations with it; and a store that refuses a Token
// lower than the last one refuses who has lost the item and does not know.
type Item struct {
	ID   ItemID
	Data []byte
	// Attempt counts how often the item was taken, this time included.
	Attempt int

	q     *Queue
	claim *claim
	lease *Lease
}

// Context returns a context that ends with parent, and with the claim: when the
// item is acked or given back (its cause is ErrReleased then), lost (ErrLost) or
// the Client is closed (ErrClosed). parent must not be nil.
func (it *Item) Context(parent context.Context) context.Context { return it.lease.Context(parent) }

// Err returns nil while the item is claimed, an error that is ErrReleased,
// ErrLost or ErrClosed from then on. It sends nothing.
func (it *Item) Err() error { return it.lease.Err() }

// ValidUntil returns the moment until which the claim is known to stand if
// nothing more is heard from the servers; see Lease.ValidUntil.
func (it *Item) ValidUntil() time.Time { return it.lease.ValidUntil() }

// Token returns the fencing token of the claim. It grows with every claim of the
// queue, so also with every delivery of this item.
func (it *Item) Token() Token { return it.lease.Token() }

// Ack removes the item for good and carries out ops, all in one transaction: so
// what they do in ZooKeeper is done exactly once, however often the item was
// delivered. ops are as in Lease.Commit.
//
// nil: it was done, now or, where a reply was lost, before. ctx may be the item's
// own. It blocks until a server answers, and costs one request and one commit; with
// ops one of each more, the first time in a session.
//
// Errors: ErrLost, and nothing was done (without ops, where the reply was lost
// and the claim too, nil may mean that the item is delivered once more). An
// operation's own error, which names it: nothing was done, and the item is still
// claimed. A request above the servers' limit is refused before it is sent, and
// the item is still claimed. ErrUncertain where the session ended before the
// reply came, where the reply was lost and the queue deleted, or where ctx ended
// before it was known; in the last case it is seen to its
// end in the background, and Err tells how: ErrReleased, it was done; nil, it was
// not, and the item is still claimed. ErrReleased: the item was acked or given
// back before.
func (it *Item) Ack(ctx context.Context, ops ...any) error {
	if ctx == nil {
		return it.lease.fail("ack an item of", errNilContext)
	}
	mapped, err := it.q.mapOps(ops)
	if err == nil {
		err = (&ackTransaction{it: it, ops: mapped}).run(ctx)
	}
	return it.lease.fail("ack an item of", err)
}

// Nack gives the item back, in its old position: the next consumer gets it, with
// an Attempt one higher. It costs one request and one commit. While disconnected
// it returns at once, and the item is given back in the background, or with its
// session.
//
// nil: it was given back, or will be; ctx's error: it will be. In both cases an Ack
// that is still under way may be carried out instead. ErrLost or ErrReleased: it had
// been lost, or acked, before. A second Nack returns what the first did.
func (it *Item) Nack(ctx context.Context) error {
	if ctx == nil {
		return it.lease.fail("nack an item of", errNilContext)
	}
	done := make(chan error, 1)
	it.q.c.tasks.Start(func() { done <- it.lease.Release() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), ErrReleased) { // the item's own, which has ended with it
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-it.lease.g.over: // from here on nobody can ack it
		return it.lease.fail("nack an item of", zkconn.ContextErr(ctx))
	}
}
