package queue

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Item is an item that a consumer has claimed.
type Item struct {
	Queue   *Queue
	Claim   *claim
	Handle  *hold.Handle
	data    []byte
	failure Failure
	acked   atomic.Bool
}

// Seen decides that a consumer gets the item, unless it was given back before.
func (it *Item) Seen() bool { return it.Claim.see() }

// LetGo returns the data and the failure of an item that a consumer gets. They are the consumer's
// from then on.
func (it *Item) LetGo() (data []byte, failure Failure) {
	data, failure = it.data, it.failure
	it.data, it.failure = nil, Failure{}
	return data, failure
}

// err returns nil while the item is claimed, and from then on why it is not.
func (it *Item) err() error { return it.Handle.Fail("hold", it.Handle.Failure()) }

// Ack removes the item for good and carries out ops.
func (it *Item) Ack(ctx context.Context, ops []any) error {
	return (&ackTransaction{it: it, ops: ops}).run(ctx)
}

// Nack gives the item back. If ctx ends first, it is given back in the background.
func (it *Item) Nack(ctx context.Context) error {
	done := make(chan error, 1)
	it.Queue.Client.Tasks.Start(func() { done <- it.Handle.Release() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errs.ErrReleased) { // the item's own context, which has ended with the item
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-it.Handle.Grant.Over: // from here on nobody can ack it
		return zkconn.ContextErr(ctx)
	}
}
