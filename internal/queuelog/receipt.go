package queuelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Receipt is an ephemeral znode that a transaction writes first of all. When the
// transaction is sent again after its reply was lost, it fails there if it was
// carried out (Q3 of package queue).
//
// A receipt is used by one transaction at a time, and again once that one's outcome
// is known. It ends with its session, as must every attempt. It is created before, on
// its own: a receipt that the transaction itself created could be deleted by somebody
// who deletes the queue, and be created once more when the transaction is sent again.
type Receipt struct {
	l       *Log
	path    string
	version int32 // of its data, -1 while it may not exist
	history int64 // of the session when its use began
	written any   // the operation of that use
}

func (l *Log) receipts() string { return l.cfg.Path + "/puts" }

// Receipt returns a receipt that no other transaction uses, and creates it if need
// be. Settle ends its use.
func (l *Log) Receipt(ctx context.Context) (*Receipt, error) { return l.receipt(ctx, l.s.Start) }

// SpareReceipt is like Receipt for a transaction that lets go of what the session holds. See
// zkconn.Session.StartSpare.
func (l *Log) SpareReceipt(ctx context.Context) (*Receipt, error) {
	return l.receipt(ctx, l.s.StartSpare)
}

type startFunc func(ops ...any) (*zkconn.Transaction, error)

func (l *Log) receipt(ctx context.Context, start startFunc) (*Receipt, error) {
	l.mu.Lock()
	var r *Receipt
	if n := len(l.free); n > 0 {
		r = l.free[n-1]
		l.free = l.free[:n-1]
		l.cfg.Receipts.kept.Add(-r.weight())
	} else {
		r = &Receipt{l: l, path: fmt.Sprintf("%s/%016x-%d", l.receipts(), uint64(l.s.ID()), l.cfg.Receipts.last.Add(1)), version: -1}
	}
	l.mu.Unlock()
	r.history = l.s.History()
	if r.version < 0 {
		if err := r.create(ctx, start); err != nil {
			if zkconn.IsContextErr(ctx, err) { // it may be created
				r.discard()
			} else {
				r.unused()
			}
			return nil, err
		}
		r.version = 0
	}
	return r, nil
}

// LargestReceipt returns a receipt of the longest name, to measure a transaction.
func (l *Log) LargestReceipt() *Receipt {
	return &Receipt{l: l, path: fmt.Sprintf("%s/%016x-%019d", l.receipts(), 0, 0)}
}

// create creates the znode. No other session writes it, because its name is this one's.
func (r *Receipt) create(ctx context.Context, start startFunc) error {
	l := r.l
	for tries := 0; tries < zkconn.MaxTries; {
		err := l.s.MultiBy(ctx, start, &zk.CreateRequest{Path: r.path, Acl: l.s.ACL(), Flags: zk.FlagEphemeral}).Err()
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists): // by an attempt whose reply was lost
			return nil
		case zkconn.Transient(err):
		case errors.Is(err, zk.ErrNoNode):
			tries++
			err := l.s.CreateContainer(ctx, l.receipts(), nil)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		default:
			return err
		}
	}
	return zkconn.ErrContended
}

// Write returns the operation that must come first in the transaction.
func (r *Receipt) Write(what string) []any {
	r.written = &zk.SetDataRequest{Path: r.path, Data: []byte(what), Version: r.version}
	return []any{r.written}
}

// used returns a receipt whose transaction was carried out.
func (r *Receipt) used() {
	if r.version++; r.version < 0 { // it would come to versions that it has had
		r.discard()
		return
	}
	r.unused()
}

// maxFree is how many receipts of a queue are kept for later transactions.
const maxFree = 32

// Receipts is what the receipts of a session share, those of all queues.
type Receipts struct {
	last atomic.Int64 // number
	kept atomic.Int64 // what those weigh that no transaction uses
}

// weight is what the receipt adds to the transaction that ends the session.
func (r *Receipt) weight() int64 { return int64(zkconn.Weight(r.path, false)) }

// unused returns a receipt whose transaction was not carried out. It is not kept if receipts would fill
// half of the session: a Client may use thousands of queues, and must have room for what it holds.
func (r *Receipt) unused() {
	bound, kept := int64(r.l.s.Load().Bound/2), &r.l.cfg.Receipts.kept
	r.l.mu.Lock()
	keep := !r.l.closed && len(r.l.free) < maxFree
	if keep && kept.Add(r.weight()) > bound {
		kept.Add(-r.weight())
		keep = false
	}
	if keep {
		r.l.free = append(r.l.free, r)
	}
	r.l.mu.Unlock()
	if !keep {
		r.discard()
	}
}

// discardFree deletes, in the background, the receipts that no transaction uses.
func (l *Log) discardFree() {
	l.mu.Lock()
	free := l.free
	l.free = nil
	l.mu.Unlock()
	for _, r := range free {
		l.cfg.Receipts.kept.Add(-r.weight())
		r.discard()
	}
}

// discard deletes a receipt, in the background, of which it is not known whether it
// was written.
func (r *Receipt) discard() {
	remove := r.l.s.Retry(nil, []any{&zk.DeleteRequest{Path: r.path, Version: -1}})
	r.l.cfg.Tasks.Start(func() { remove.Wait(r.l.s.UntilAnswered()) }) // if the servers refuse, it goes with the session
}

// Transact carries out a transaction once, behind a receipt. The outcome has no results if it
// was applied by an attempt whose reply was lost. It is a failure with an error that is
// uncertain if what became of it is unknown.
func (l *Log) Transact(ctx context.Context, what string, uncertain error, parts ...[]any) zkconn.Outcome {
	for range zkconn.MaxTries {
		r, err := l.Receipt(ctx)
		if err != nil {
			return zkconn.Failure(err)
		}
		x := l.s.Retry(nil, slices.Concat([][]any{r.Write(what)}, parts)...)
		if o, again := r.Settle(x, x.Wait(ctx), uncertain); !again {
			return o
		}
	}
	return zkconn.Failure(zkconn.ErrContended)
}

// Settle ends the use of a receipt by a transaction that ended with o, and returns the outcome, as
// Transact does. again: nothing was done, and another receipt may work.
func (r *Receipt) Settle(x *zkconn.Retry, o zkconn.Outcome, uncertain error) (_ zkconn.Outcome, again bool) {
	switch {
	case o.Applied():
		r.used()
	case o.RefusedAt(r.written):
		done, err := r.refused(x, o.Err(), uncertain)
		switch {
		case done:
			return x.AppliedBefore(), false
		case err != nil:
			return zkconn.Failure(err), false
		}
		return o, true
	case !o.Refused() && x.Unknown():
		r.discard()
		return zkconn.Failure(fmt.Errorf("%w: %w", uncertain, o.Err())), false
	default:
		r.unused()
	}
	return o, false
}

// refused says what it means that a transaction failed at its receipt: done if an
// earlier attempt was carried out, an error that is uncertain if that cannot be known.
// Neither: nothing was done, and another receipt may work.
func (r *Receipt) refused(x *zkconn.Retry, err, uncertain error) (done bool, _ error) {
	if x.Repeated() && errors.Is(err, zk.ErrBadVersion) && r.l.s.History() != r.history {
		// The servers may have lost transactions of the receipt. Then they have lost the one
		// that was sent, too, or never had it.
		stat, unknown := r.l.s.Exists(r.l.s.UntilAnswered(), r.path)
		switch {
		case unknown != nil:
			r.discard()
			return false, fmt.Errorf("%w: receipt: %w", uncertain, unknown)
		case stat.Version < r.version:
			r.discard()
			return false, nil
		}
	}
	switch {
	case x.Repeated() && errors.Is(err, zk.ErrBadVersion):
		r.used()
		return true, nil
	case x.Repeated():
		r.discard()
		return false, fmt.Errorf("%w: receipt: %w", uncertain, err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoAuth):
		// Somebody has changed it, or has deleted all of them together with the queue. The
		// next transaction gets a new one.
		r.discard()
		r.l.discardFree()
		return false, nil
	}
	r.unused()
	return false, err
}
