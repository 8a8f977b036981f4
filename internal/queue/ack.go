package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
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
	// rejoin is the line in which a place is to be taken along for turns, or nil.
	rejoin *line.Line
	turns  *takerPool
	ahead  bool
	// next is the place that was taken, or nil.
	next *line.Place
	// tries counts the attempts since others last filled a segment.
	tries int
	sent  chan struct{}
	// left is set by the caller that leaves, or by the outcome: see leaveNext.
	left atomic.Bool
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
	next    *line.Entry
}

// run carries the transaction out, or learns that it was not. If it fails, there is no
// next place.
func (a *ackTransaction) run(ctx context.Context) error {
	began := time.Now()
	a.sent = make(chan struct{})
	c := a.it.Queue.Client
	c.Tasks.Add() // Close must wait for the task that leaveNext starts
	defer c.Tasks.Finish()
	err := a.it.Handle.Grant.EndWith(ctx, a.sent, func() (done bool, err error) {
		defer a.leaveNext()
		for ; a.tries < zkconn.MaxTries; a.tries++ {
			again := false
			if done, again, err = a.try(ctx); !again {
				if done { // maybe after the caller has left
					a.it.Claim.settle()
				}
				return done, err
			}
		}
		return false, zkconn.ErrContended
	})
	if err != nil {
		a.leaveNext()
	}
	a.reserved(err)
	if errors.Is(err, errs.ErrLost) {
		a.it.Claim.settle()
		if errors.Is(err, errs.ErrGone) && !errors.Is(err, errs.ErrDeleted) { // an event said so
			err = errs.Lost(a.it.Claim.whyDeleted(ctx))
		}
	}
	a.it.Queue.noteAck(time.Since(began))
	return err
}

// reserve has the ack take a place in the consumers' line along, if the Client needs one:
// not where others take, too, and items are ample.
// The place waits so long for a taker.
func (a *ackTransaction) reserve(q *Queue, keep time.Duration) {
	if hints := &a.it.Claim.Queue().Hints; hints.areOthers() && hints.ample.Load() {
		return
	}
	if a.turns = q.reserve(keep); a.turns != nil {
		a.rejoin = q.consumers
	}
}

// reserveSoon is like reserve for an ack after which a taker is likely to come, if others
// wait in line. Otherwise the ack reads ahead, see lookAhead.
func (a *ackTransaction) reserveSoon() {
	a.ahead = true
	queue := a.it.Claim.Queue()
	if !queue.Hints.Queued.Load() {
		return
	}
	if keep, ok := a.it.Queue.takesSoon(queue); ok {
		a.reserve(a.it.Queue, keep)
	}
}

// reserved hands over the place that was taken along.
func (a *ackTransaction) reserved(err error) {
	if a.turns == nil {
		return
	}
	var next *line.Place
	if err == nil { // else the place is deleted
		next = a.next
	}
	a.turns.reserved(next)
}

// leaveNext is called when the outcome is known, and when the caller leaves with an
// error. The second call deletes the next place: nobody uses it, and the line would wait
// for it until the session ends.
func (a *ackTransaction) leaveNext() {
	if second := a.left.Swap(true); !second || a.next == nil {
		return
	}
	a.it.Queue.Client.Tasks.Start(a.next.Withdraw)
}

// try sends it until the outcome is known. again: it was not carried out, and the next
// attempt may be.
func (a *ackTransaction) try(ctx context.Context) (done, again bool, err error) {
	parts, err := a.parts(ctx)
	if err != nil {
		return false, false, err
	}
	x := parts.begin(a.it.Claim.Session, a.sent)
	a.rejoin.ReadBefore(a.it.Claim.Session, parts.next)
	if a.ahead && x.Begin(ctx) == nil {
		a.it.Queue.lookAhead(a.it.Claim.Session, a.rejoin != nil)
	}
	o := x.Settle(ctx)
	if o.Applied() {
		a.carriedOut(ctx, parts, o)
		return true, false, nil
	}
	if parts.receipt != nil {
		switch {
		case o.RefusedAt(parts.written[0]):
			if done, err = parts.receipt.Refused(x, o.Err(), errs.ErrUncertain); done {
				a.findNext(parts.next)
			}
			return done, !done && err == nil, err
		case !o.Refused() && x.Unknown():
			parts.receipt.Discard()
		default:
			parts.receipt.Unused()
		}
	}
	return a.refused(ctx, parts, x, o)
}

// begin returns the transaction, with an alternative for each segment that the items may
// come into. All begin with the receipt or else with the claim's flag, so one of them can be
// carried out.
func (parts ackParts) begin(s *session.Session, sent chan struct{}) *zkconn.Retry {
	before, after := slices.Concat(parts.written, parts.claim.All(), parts.ops), parts.next.Ops()
	if parts.append == nil {
		return s.Retry(sent, before, after)
	}
	alternatives := parts.append.Between(before, after)
	x := s.Retry(sent, alternatives[0])
	for _, other := range alternatives[1:] {
		x.Or(other)
	}
	return x
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
		parts.written = parts.receipt.Write(c.Name)
	}
	if a.rejoin != nil {
		if state, err := a.rejoin.Ensure(ctx, c.Session); err == nil {
			parts.next = a.rejoin.Entry(c.Session, placename.KindLock, state)
		}
	}
	return parts, nil
}

// carriedOut notes the results.
func (a *ackTransaction) carriedOut(ctx context.Context, parts ackParts, o zkconn.Outcome) {
	if parts.receipt != nil {
		parts.receipt.Used()
	}
	if parts.append != nil {
		parts.append.Done(o)
	}
	if parts.next != nil {
		a.next, _ = a.rejoin.Entered(ctx, a.it.Claim.Session, parts.next, o)
	}
}

// refused returns what try does for an attempt that failed, its receipt aside.
func (a *ackTransaction) refused(ctx context.Context, parts ackParts, x *zkconn.Retry, o zkconn.Outcome) (done, again bool, _ error) {
	claim := parts.claim
	noRoomForNext := !o.Refused() && parts.next != nil && !a.it.Claim.Session.IsOver() && ctx.Err() == nil
	switch {
	case !o.Refused() && x.Unknown():
		return false, false, fmt.Errorf("%w: %w", errs.ErrUncertain, o.Err())
	case o.RefusedIn(parts.next.Ops()), noRoomForNext:
		a.rejoin.Refused(parts.next, o)
		a.rejoin = nil
		return false, true, nil
	case o.RefusedAt(claim.flag) && x.Repeated() && parts.receipt == nil:
		done, err := a.repeatedAck(parts, o)
		return done, false, err
	case o.RefusedAt(claim.flag, zk.ErrNoNode), o.RefusedAt(claim.exclusion, zk.ErrNoNode):
		return false, false, errs.Lost(a.it.Claim.whyDeleted(ctx))
	case o.RefusedAt(claim.item[0], zk.ErrNotEmpty):
		a.notEmpty(ctx)
		return false, true, nil
	case parts.append.Refused(o):
		if parts.append.Moved(o) {
			return false, true, nil
		}
		return false, false, a.puts.fail(o.Err())
	}
	return false, false, a.failed(parts, o)
}

// repeatedAck is for an ack without a receipt that was sent again and that the server refused
// at the claim's flag: an earlier attempt may have deleted it.
func (a *ackTransaction) repeatedAck(parts ackParts, o zkconn.Outcome) (done bool, _ error) {
	switch {
	case !o.Is(zk.ErrNoNode):
		if parts.next != nil { // an earlier attempt may have taken the place
			a.findNext(parts.next)
		}
		return false, fmt.Errorf("%w: %w", errs.ErrUncertain, o.Err())
	case a.it.Claim.sweepExclusion():
		return false, errs.Lost(errs.ErrDeleted)
	}
	a.findNext(parts.next)
	return true, nil
}

// failed returns the error for an attempt after which nothing more is tried.
func (a *ackTransaction) failed(parts ackParts, o zkconn.Outcome) error {
	switch {
	case o.RefusedIn(parts.ops):
		return fmt.Errorf("operation %d: %w", o.IndexIn(parts.ops), o.Err())
	case a.puts != nil && o.Is(zkconn.ErrTooLarge):
		return a.puts.fail(o.Err())
	}
	return o.Err()
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

// findNext searches for the place of an attempt that was carried out, whose reply was
// lost.
func (a *ackTransaction) findNext(next *line.Entry) {
	if next != nil {
		a.next, _ = a.rejoin.FindLostJoin(a.it.Claim.Session, next)
	}
}
