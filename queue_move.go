package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// ackPut acks the item, puts items into another queue and carries out ops.
func (it *takenItem) ackPut(ctx context.Context, to *itemQueue, items []queuelog.Item, ops []any) error {
	a := &ackTransaction{it: it, ops: ops}
	if len(items) > 0 {
		for i := range items {
			items[i].Data = slices.Clone(items[i].Data)
		}
		a.puts = &ackPuts{to: queueIn(it.claim.Session, to.abs()).Log, path: to.path, size: to.segmentSize, items: items, once: true}
	}
	return a.run(ctx)
}

// checkPut refuses what cannot be put into a queue together with an ack.
func (it *takenItem) checkPut(ctx context.Context, to *itemQueue, items []queuelog.Item) error {
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
