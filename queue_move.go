package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

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
//
//   - The servers' error, which names the other queue, is returned if they refuse to put
//     the items. Nothing was done, and the item is still claimed. That is so, too, if the
//     items are too large, which is refused before anything is sent.
//
//   - ErrUncertain is returned as by Ack, together with the IDs of the items.
//
//   - ErrReleased is returned if the item was acked or given back before.
//
//   - An operation's own error, which names the operation, is returned as by Ack.
//
// On any error but ErrUncertain there are no IDs. AckPut costs one request and one
// commit. The first one in a session costs one of each more, and three reads more for a
// queue that the Client has not used yet.
func (it *Item) AckPut(ctx context.Context, to *Queue, items [][]byte, ops ...Op) ([]ItemID, error) {
	if err := it.check(ctx); err != nil {
		return nil, it.held().fail("ack an item of", err)
	}
	ids, err := it.ackPut(ctx, to, items, ops)
	return ids, it.held().fail("ack an item of", err)
}

func (it *Item) ackPut(ctx context.Context, to *Queue, datas [][]byte, ops []Op) ([]ItemID, error) {
	items, ids := newItems(datas)
	if err := it.checkPut(ctx, to, items); err != nil {
		return nil, err
	}
	mapped, err := mapOps(it.q.c, ops)
	if err != nil {
		return nil, err
	}
	cloneData(mapped) // they may be sent after the caller has returned
	a := &ackTransaction{it: it, ops: mapped}
	if len(items) > 0 {
		for i := range items {
			items[i].Data = slices.Clone(items[i].Data)
		}
		a.puts = &ackPuts{to: queueIn(it.claim.Session, to.abs()).Log, path: to.path, size: to.segmentSize, items: items, once: true}
	}
	err = a.run(ctx)
	if err != nil && !errors.Is(err, ErrUncertain) {
		return nil, err
	}
	return ids, err
}

// checkPut refuses what cannot be put into a queue together with an ack.
func (it *Item) checkPut(ctx context.Context, to *Queue, items []queuelog.Item) error {
	if err := to.check(ctx); err != nil {
		return fmt.Errorf("other queue: %w", err)
	}
	var err error
	switch {
	case to.c != it.q.c:
		err = errors.New("the queue belongs to another Client")
	case to.opts.MaxLen > 0:
		err = fmt.Errorf("QueueOptions.MaxLen is %d, and AckPut does not wait for room", to.opts.MaxLen)
	default:
		err = to.checkFits(it.claim.Session, items)
	}
	if err != nil {
		return fmt.Errorf("put into %s: %w", to.path, err)
	}
	return nil
}
