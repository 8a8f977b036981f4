package zkrecipes

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// takenItem is an item that a consumer has claimed.
type takenItem struct {
	q       *itemQueue
	claim   *claim
	handle  *line.Handle
	data    []byte // see letGo
	failure itemFailure
}

// letGo returns the data and the failure, which are the consumer's from then on.
func (it *takenItem) letGo() (data []byte, failure itemFailure) {
	data, failure = it.data, it.failure
	it.data, it.failure = nil, itemFailure{}
	return data, failure
}

// err returns nil while the item is claimed, and from then on why it is not.
func (it *takenItem) err() error { return it.handle.Fail("hold", it.handle.Failure()) }

// ack removes the item for good and carries out ops.
func (it *takenItem) ack(ctx context.Context, ops []any) error {
	a := &ackTransaction{it: it, ops: ops}
	if len(ops) == 0 {
		a.reserveSoon()
	}
	return a.run(ctx)
}

// nack gives the item back. If ctx ends first, it is given back in the background.
func (it *takenItem) nack(ctx context.Context) error {
	done := make(chan error, 1)
	it.q.c.Tasks.Start(func() { done <- it.handle.GiveBack() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), line.ErrReleased) { // the item's own context, which has ended with the item
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-it.handle.Grant.Over: // from here on nobody can ack it
		return zkconn.ContextErr(ctx)
	}
}
