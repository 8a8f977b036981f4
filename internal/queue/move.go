package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// AckPut acks the item, puts items into another queue and carries out ops.
func (it *Item) AckPut(ctx context.Context, to *Queue, items []queuelog.Item, ops []any) error {
	a := &ackTransaction{it: it, ops: ops}
	if len(items) > 0 {
		for i := range items {
			items[i].Data = slices.Clone(items[i].Data)
		}
		a.puts = &ackPuts{to: QueueIn(it.Claim.Session, to.Abs()).Log, path: to.Path, size: to.SegmentSize, items: items, once: true}
	}
	return a.run(ctx)
}

// CheckPut refuses what cannot be put into a queue together with an ack.
func (it *Item) CheckPut(ctx context.Context, to *Queue, items []queuelog.Item) error {
	if err := to.Check(ctx); err != nil {
		return fmt.Errorf("other queue: %w", err)
	}
	var err error
	switch {
	case to.Client != it.Queue.Client:
		err = errors.New("the queue belongs to another Client")
	case to.Opts.MaxLen > 0:
		err = fmt.Errorf("QueueOptions.MaxLen is %d, and AckPut does not wait for room", to.Opts.MaxLen)
	default:
		err = to.CheckFits(it.Claim.Session, items)
	}
	if err != nil {
		return fmt.Errorf("put into %s: %w", to.Path, err)
	}
	return nil
}
