package queue

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// CheckPut refuses what no call can put.
func (q *Queue) CheckPut(ctx context.Context, n int) error {
	if err := q.Check(ctx); err != nil {
		return err
	}
	if q.IsBounded() && n > q.Opts.MaxLen {
		return fmt.Errorf("%d items: QueueOptions.MaxLen is %d", n, q.Opts.MaxLen)
	}
	return nil
}

// IsBounded reports whether a put may wait for room.
func (q *Queue) IsBounded() bool { return q.Opts.MaxLen > 0 }

// Put puts items in one transaction.
func (q *Queue) Put(ctx context.Context, items []queuelog.Item) error {
	ctx, done := q.Client.Bind(ctx)
	defer done()
	return q.putItems(ctx, items)
}

// NewItems returns items with new IDs.
func NewItems(datas [][]byte) []queuelog.Item {
	items := make([]queuelog.Item, len(datas))
	for i, data := range datas {
		items[i] = queuelog.Item{ID: queuelog.NewID(), Data: data}
	}
	return items
}

// putItems puts the items, and carries out the operations with in the same transaction.
func (q *Queue) putItems(ctx context.Context, items []queuelog.Item, with ...any) error {
	return q.Client.InSessions(ctx, func(s *session.Session) error {
		err := q.CheckFits(s, items)
		switch {
		case err != nil:
			return err
		case q.IsBounded():
			return q.putInTurn(ctx, items, with)
		}
		return q.append(ctx, s, nil, items, with) // in one session, because the receipt ends with it
	})
}

// append puts the items by a transaction of four parts: the receipt, the operations with,
// the items, and, for a producer that has waited for its turn, the exit of its place p.
func (q *Queue) append(ctx context.Context, s *session.Session, p *line.Place, items []queuelog.Item, with []any) error {
	if !q.Client.Writes.Begin() {
		return errs.ErrClosed
	}
	defer q.Client.Writes.End()
	log := QueueIn(s, q.Abs())
	var leave line.Deletion
	if p != nil {
		leave = p.Deletion(true)
	}
	last := int64(-1)
	for tries := 0; tries < zkconn.MaxTries; tries++ {
		tail, err := log.Append(ctx, items, q.SegmentSize)
		if err != nil {
			return err
		}
		if tail.Number() > last { // others have filled segments: this was no failure
			tries, last = 0, tail.Number()
		}
		o := log.Transact(ctx, items[0].ID, errs.ErrUncertain, with, tail.Ops, leave.Ops)
		if o.HasResults() {
			tail.Done(o)
		}
		switch {
		case !o.Refused():
			return o.Err()
		case o.RefusedIn(with):
			return refusedOp{o.Err()}
		}
		if !tail.Moved(o) {
			if leave, err = p.DeletionAgain(ctx, leave, o); err != nil {
				return err
			}
		}
	}
	return zkconn.ErrContended
}

// refusedOp is the error of one of the operations that append carries out with a put.
type refusedOp struct {
	error
}

func (e refusedOp) Unwrap() error { return e.error }

// CheckFits refuses items too large for one request, before anything is sent:
// in the put, and in the transaction that would move each item to the dead letters.
func (q *Queue) CheckFits(s *session.Session, items []queuelog.Item) error {
	sum := 0
	for _, it := range items {
		if limit := q.Opts.MaxItemBytes; limit > 0 && len(it.Data) > limit {
			return zkconn.Errorf(zkconn.ErrTooLarge, "item of %d bytes: QueueOptions.MaxItemBytes is %d", len(it.Data), limit)
		}
		sum += len(it.Data)
	}
	// More than there can be beside the data, so that most puts need not be measured.
	op := len(q.Abs()) + len(q.DeadLettersPath()) + zkconn.CreateSize("", nil, s.ACL()) + 200
	segments := len(items)/int(q.SegmentSize) + 1
	if sum+(len(items)+2*segments+12)*op < zkconn.MaxRequest(q.Client.MaxBuffer) {
		return nil
	}
	log := QueueIn(s, q.Abs())
	receipt := log.LargestReceipt().Write(queuelog.NewID())
	var leave line.Deletion
	if q.IsBounded() {
		p := &line.Place{
			PlaceName: layout.PlaceName{Kind: layout.KindLock}, Line: q.producers,
			Znode: hold.Znode{Session: s, Path: q.producers.Abs() + "/_c_" + layout.NewUUID() + "-" + string(layout.KindLock) + "0000000000"},
		}
		leave = p.Deletion(true)
	}
	if err := zkconn.CheckSize(zkconn.MultiSize(receipt, log.LargestAppend(items, q.SegmentSize).Ops, leave.Ops), q.Client.MaxBuffer); err != nil {
		if len(items) > 1 {
			err = fmt.Errorf("%d items: %w", len(items), err)
		}
		return err
	}
	if q.Opts.MaxAttempts < 0 {
		return nil
	}
	letters := NewQueueLog(s, q.DeadLettersPath())
	claim := q.NewClaim(s, log.Segment(0)+"/"+queuelog.NewID()+"0000000000")
	for _, it := range items {
		if err := zkconn.CheckSize(zkconn.MultiSize(claim.AckOps(true).All(), letters.LargestAppend([]queuelog.Item{it}, q.SegmentSize).Ops), q.Client.MaxBuffer); err != nil {
			return fmt.Errorf("an item could not be moved to the dead letters: %w", err)
		}
	}
	return nil
}
