package zkconn

import (
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Retry is a transaction that is sent again, in its session, until its outcome is
// known. When it is sent a second time, the operation that fails must tell whether
// the first attempt was carried out (Z2).
type Retry struct {
	s    *Session
	ops  []any
	sent chan struct{} // closed when it is sent for the first time

	underWay *Transaction // the last attempt, nil once its outcome is known
	attempts int
	repeated bool // an earlier attempt may have been carried out
	// begun is how many creates the session had begun before the first attempt that may have been
	// carried out.
	begun int64
}

// Retry returns the transaction of the parts' operations, in order. sent, which may
// be nil, is closed when it is sent for the first time.
func (s *Session) Retry(sent chan struct{}, parts ...[]any) *Retry {
	if sent == nil {
		sent = make(chan struct{})
	}
	return &Retry{s: s, ops: slices.Concat(parts...), sent: sent}
}

// Begin sends it. It blocks until requests pass, not for the answer.
func (x *Retry) Begin(ctx context.Context) error {
	start := x.s.Start
	if x.repeated { // what it creates may exist, so it must not be refused for that
		start = x.s.StartSpare
	}
	t, err := x.s.BeginBy(ctx, func(ops ...any) (*Transaction, error) {
		if !x.repeated {
			x.begun = x.s.account.begins()
		}
		return start(ops...)
	}, x.ops...)
	if err != nil {
		return err
	}
	x.underWay = t
	x.attempts++
	select {
	case <-x.sent:
	default:
		close(x.sent)
	}
	return nil
}

// Attempts returns how often it was sent, or was about to be.
func (x *Retry) Attempts() int { return x.attempts }

// Repeated reports whether an attempt before the last one may have been carried
// out.
func (x *Retry) Repeated() bool { return x.repeated }

// Unknown reports whether it may have been carried out, or may still be.
func (x *Retry) Unknown() bool { return x.underWay != nil || x.repeated }

// Wait returns the outcome, as Transaction.Wait does. If the session ends first, that is a
// failure with ErrSessionOver, and what became of the transaction stays unknown. When ctx ends,
// it is a failure with ContextErr, and Wait can be called again.
func (x *Retry) Wait(ctx context.Context) Outcome {
	for {
		if x.underWay == nil {
			if err := x.Begin(ctx); err != nil {
				return Failure(err)
			}
		}
		o := x.underWay.Wait(ctx)
		if IsContextErr(ctx, o.err) {
			return o
		}
		if o.Transient() || o.SessionOver() {
			_, _, why := x.underWay.call.Result()
			x.repeated = x.repeated || !errors.Is(why, wire.ErrNotSent)
		}
		x.underWay = nil
		if !o.Transient() {
			return o
		}
	}
}

// AppliedBefore is the outcome of an earlier attempt that was carried out and whose reply was lost, as
// the caller knows from how a later one was refused. It has no results. What the transaction
// deletes may have been created again since.
func (x *Retry) AppliedBefore() Outcome {
	x.s.account.appliedBefore(x.ops, x.begun)
	return Outcome{}
}

// Settle is like Wait but ignores ctx once the transaction is sent.
func (x *Retry) Settle(ctx context.Context) Outcome {
	o := x.Wait(ctx)
	if IsContextErr(ctx, o.err) && x.Unknown() {
		return x.Wait(x.s.UntilAnswered())
	}
	return o
}
