package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// ackTransaction removes an item: an ack, which carries the caller's operations or puts
// items into another queue, or the move to the dead letters.
//
// When it is sent again after a lost reply, it fails at the claim both if it was carried
// out and if somebody has deleted the claim. A plain ack, or a move to the dead letters,
// need not tell them apart: at worst the item is delivered again. With the caller's
// operations or items a receipt does.
//
// An item with znodes of others below it cannot be deleted. Then a mark is created beside
// it instead, and nobody sees the item any more.
type ackTransaction struct {
	it   *Item
	ops  []any
	puts *ackPuts
	// marks: the item cannot be deleted, and is marked instead.
	marks bool
	// miscounts is how often it was not deleted although nothing is seen below it.
	miscounts int
	// tries counts the attempts since others last filled a segment.
	tries int
	sent  chan struct{}
}

// ackPuts are the items that an ackTransaction puts into a queue.
type ackPuts struct {
	to     *queuelog.Log
	path   string
	size   int64
	items  []queuelog.Item
	once   bool
	number int64
}

func (p *ackPuts) fail(err error) error {
	if p.path == "" {
		return err
	}
	return fmt.Errorf("put into %s: %w", p.path, err)
}

// ackParts are the parts of an attempt, in their order.
type ackParts struct {
	receipt *queuelog.Receipt
	written []any
	claim   ackOps
	ops     []any
	append  *queuelog.Append
}

// run carries the transaction out, or learns that it was not.
func (a *ackTransaction) run(ctx context.Context) error {
	a.sent = make(chan struct{})
	err := a.it.Handle.Grant.EndWith(ctx, a.sent, func() (done bool, err error) {
		for ; a.tries < zkconn.MaxTries; a.tries++ {
			again := false
			if done, again, err = a.try(ctx); !again {
				return done, err
			}
		}
		return false, zkconn.ErrContended
	})
	if err == nil {
		a.it.acked.Store(true)
	}
	if errors.Is(err, errs.ErrLost) && errors.Is(err, errs.ErrGone) && !errors.Is(err, errs.ErrDeleted) { // an event said so
		err = errs.Lost(a.it.Claim.whyDeleted(ctx))
	}
	return err
}

// try sends it until the outcome is known. again: it was not carried out, and the next
// attempt may be.
func (a *ackTransaction) try(ctx context.Context) (done, again bool, err error) {
	parts, err := a.parts(ctx)
	if err != nil {
		return false, false, err
	}
	x := a.it.Claim.Session.Retry(a.sent, parts.written, parts.claim.All(), parts.ops, parts.append.All())
	o := x.Settle(ctx)
	if parts.receipt != nil {
		if o, again = parts.receipt.Settle(x, o, errs.ErrUncertain); again {
			return false, true, nil
		}
	}
	if !o.Applied() {
		return a.refused(ctx, parts, x, o)
	}
	if parts.append != nil && o.HasResults() {
		parts.append.Done(o)
	}
	return true, false, nil
}

// parts makes the parts of the next attempt.
func (a *ackTransaction) parts(ctx context.Context) (parts ackParts, err error) {
	c := a.it.Claim
	parts.claim = c.AckOps(a.marks)
	parts.ops = a.ops
	if p := a.puts; p != nil {
		if parts.append, err = p.to.Append(ctx, p.items, p.size); err != nil {
			return parts, p.fail(err)
		}
		if n := parts.append.Number(); n > p.number { // others have filled segments: this was no failure
			a.tries, p.number = 0, n
		}
	}
	if len(a.ops) > 0 || a.puts != nil && a.puts.once {
		if parts.receipt, err = c.Queue().SpareReceipt(ctx); err != nil {
			return parts, err
		}
		parts.written = parts.receipt.Write(c.name)
	}
	return parts, nil
}

// refused returns what try does for an attempt that failed, its receipt aside.
func (a *ackTransaction) refused(ctx context.Context, parts ackParts, x *zkconn.Retry, o zkconn.Outcome) (done, again bool, _ error) {
	claim := parts.claim
	switch {
	case !o.Refused() && x.Unknown() && parts.receipt == nil:
		return false, false, fmt.Errorf("%w: %w", errs.ErrUncertain, o.Err())
	case o.RefusedAt(claim.flag) && x.Repeated() && parts.receipt == nil:
		done, err := a.repeatedAck(o)
		return done, false, err
	case o.RefusedAt(claim.flag, zk.ErrNoNode), o.RefusedAt(claim.exclusion, zk.ErrNoNode):
		return false, false, errs.Lost(a.it.Claim.whyDeleted(ctx))
	case o.RefusedAt(claim.item[0], zk.ErrNotEmpty):
		a.notEmpty(ctx)
		return false, true, nil
	case o.RefusedIn(parts.ops):
		return false, false, fmt.Errorf("operation %d: %w", o.IndexIn(parts.ops), o.Err())
	case o.RefusedIn(parts.append.All()) && parts.append.Moved(o):
		return false, true, nil
	case o.RefusedIn(parts.append.All()), a.puts != nil && o.Is(zkconn.ErrTooLarge):
		return false, false, a.puts.fail(o.Err())
	}
	return false, false, o.Err()
}

// repeatedAck is for an ack without a receipt that was sent again and that the server refused
// at the claim's flag: an earlier attempt may have deleted it.
func (a *ackTransaction) repeatedAck(o zkconn.Outcome) (done bool, _ error) {
	switch {
	case !o.Is(zk.ErrNoNode):
		return false, fmt.Errorf("%w: %w", errs.ErrUncertain, o.Err())
	case a.it.Claim.sweepExclusion():
		return false, errs.Lost(errs.ErrDeleted)
	}
	return true, nil
}

// maxMiscounts bounds how often an ack is sent again because the servers count znodes
// below the item where none is seen. After that it marks the item all the same.
const maxMiscounts = 8

// notEmpty has the next attempt mark the item as done if there are znodes of others below
// it, and else try again: see childrenOf.
func (a *ackTransaction) notEmpty(ctx context.Context) {
	c := a.it.Claim
	below, err := childrenOf(ctx, c.Session, c.Item)
	below = slices.DeleteFunc(below, func(name string) bool { return "/"+name == queuelog.ClaimName })
	if a.miscounts++; err == nil && len(below) == 0 && a.miscounts <= maxMiscounts {
		return
	}
	a.marks = true
	a.it.Queue.Client.Log(slog.LevelError, "an item that is done cannot be deleted, because there are znodes below it; it is marked as done instead",
		"item", c.logged(), "queue", a.it.Queue.Path, "znode", c.Item, "children", below)
}
