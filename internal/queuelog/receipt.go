package queuelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Receipt is an ephemeral znode that a transaction writes first of all. When the
// transaction is sent again after its reply was lost, it fails there if it was
// carried out. Searching for what it did would prove nothing: an item may have been
// put, taken and acked by then.
//
// A receipt is used by one transaction at a time, and again once that one's outcome
// is known. It ends with its session, as must every attempt. It is created before, on
// its own: a receipt that the transaction itself created could be deleted by somebody
// who deletes the queue, and be created once more when the transaction is sent again.
type Receipt struct {
	l       *Log
	path    string
	version int32 // of its data, -1 while it may not exist
}

func (l *Log) receipts() string { return l.cfg.Path + "/puts" }

// Receipt returns a receipt that no other transaction uses, and creates it if need
// be. The caller ends its use with Used, Unused, Discard, Abandon or Refused.
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
	} else {
		r = &Receipt{l, fmt.Sprintf("%s/%016x-%d", l.receipts(), uint64(l.s.ID()), l.cfg.Receipts.Add(1)), -1}
	}
	l.mu.Unlock()
	if r.version < 0 {
		if err := r.create(ctx, start); err != nil {
			if zkconn.IsContextErr(ctx, err) { // it may be created
				r.Discard()
			} else {
				r.Unused()
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
		_, _, err := l.s.MultiBy(ctx, start, &zk.CreateRequest{Path: r.path, Acl: l.s.ACL(), Flags: zk.FlagEphemeral})
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
	return []any{&zk.SetDataRequest{Path: r.path, Data: []byte(what), Version: r.version}}
}

// Used returns a receipt whose transaction was carried out.
func (r *Receipt) Used() {
	if r.version++; r.version < 0 { // it would come to versions that it has had
		r.Discard()
		return
	}
	r.Unused()
}

// maxFree is how many receipts are kept for later transactions.
const maxFree = 32

// Unused returns a receipt whose transaction was not carried out.
func (r *Receipt) Unused() {
	r.l.mu.Lock()
	keep := !r.l.closed && len(r.l.free) < maxFree
	if keep {
		r.l.free = append(r.l.free, r)
	}
	r.l.mu.Unlock()
	if !keep {
		r.Discard()
	}
}

// discardFree deletes, in the background, the receipts that no transaction uses.
func (l *Log) discardFree() {
	l.mu.Lock()
	free := l.free
	l.free = nil
	l.mu.Unlock()
	for _, r := range free {
		r.Discard()
	}
}

// Discard deletes a receipt, in the background, of which it is not known whether it
// was written.
func (r *Receipt) Discard() {
	l := r.l
	l.cfg.Tasks.Start(func() {
		for {
			_, _, err := l.s.Multi(l.s.Lifetime(), &zk.DeleteRequest{Path: r.path, Version: -1})
			if !zkconn.Transient(err) {
				return // if the servers refuse, it goes with the session
			}
		}
	})
}

// Abandon returns a receipt, in the background, once the outcome of its transaction
// is known, for which nobody waits any more.
func (r *Receipt) Abandon(x *zkconn.Retry) {
	ts := x.Pending()
	if ts == nil {
		r.Discard()
		return
	}
	r.l.cfg.Tasks.Start(func() {
		done, lost := false, false
		for _, t := range ts {
			<-t.Done()
			_, _, err := t.Result()
			done = done || err == nil
			lost = lost || zkconn.Transient(err) || errors.Is(err, zkconn.ErrSessionOver)
		}
		switch {
		case done:
			r.Used()
		case lost:
			r.Discard()
		default:
			r.Unused()
		}
	})
}

// Transact carries out a transaction, or one of several alternatives, once, behind a
// receipt. It was carried out if err is nil: now, or without rs by an attempt whose reply
// was lost. failed is the operation that the servers refused; then nothing was done. An
// error that is uncertain is returned if the outcome is unknown.
func (l *Log) Transact(ctx context.Context, what string, uncertain error, alternatives ...[]any) (rs *zkconn.Results, failed any, err error) {
	for range zkconn.MaxTries {
		r, err := l.Receipt(ctx)
		if err != nil {
			return nil, nil, err
		}
		written := r.Write(what)
		x := l.s.Retry(nil, written, alternatives[0])
		for _, other := range alternatives[1:] {
			x.Or(written, other)
		}
		results, failed, err := x.Wait(ctx)
		switch {
		case err == nil:
			r.Used()
			return &results, nil, nil
		case failed == written[0]:
			if done, err := r.Refused(x, err, uncertain); done || err != nil {
				return nil, nil, err
			}
		case failed == nil && x.Unknown():
			r.Abandon(x)
			return nil, nil, fmt.Errorf("%w: %w", uncertain, err)
		default:
			r.Unused()
			return nil, failed, err
		}
	}
	return nil, nil, zkconn.ErrContended
}

// Refused says what it means that a transaction failed at its receipt: done if an
// earlier attempt was carried out, an error that is uncertain if that cannot be known.
// Neither: nothing was done, and another receipt may work.
func (r *Receipt) Refused(x *zkconn.Retry, err, uncertain error) (done bool, _ error) {
	switch {
	case x.Repeated() && errors.Is(err, zk.ErrBadVersion):
		x.NoteDone()
		r.Used()
		return true, nil
	case x.Repeated():
		r.Discard()
		return false, fmt.Errorf("%w: receipt: %w", uncertain, err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoAuth):
		if stat, unchanged := r.l.s.Exists(r.l.s.Lifetime(), r.path); unchanged == nil && stat.Aversion == 0 {
			r.l.s.OwnWriteFailed(err)
		}
		// Somebody has changed it, or has deleted all of them together with the queue. The
		// next transaction gets a new one.
		r.Discard()
		r.l.discardFree()
		return false, nil
	}
	r.Unused()
	return false, err
}
