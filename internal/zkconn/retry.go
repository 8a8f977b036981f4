package zkconn

import (
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Retry is a transaction that is sent again, in its session, until its outcome is
// known. When it is sent a second time, the operation that fails must tell whether
// the first attempt was carried out.
type Retry struct {
	s    *Session
	ops  []any
	sent chan struct{} // closed when it is sent for the first time

	t        *Transaction // under way
	attempts int
	repeated bool // an earlier attempt may have been carried out
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
	t, err := x.s.Begin(ctx, x.ops...)
	if err != nil {
		return err
	}
	x.t = t
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
func (x *Retry) Unknown() bool { return x.t != nil || x.repeated }

// Pending returns the only attempt, whose caller has left before its end. It is nil
// where there is none, or where an earlier one may have been carried out.
func (x *Retry) Pending() *Transaction {
	if x.repeated {
		return nil
	}
	return x.t
}

// Wait returns the outcome, as Transaction.Result does. Where the session ends
// first it returns ErrSessionOver, and the outcome stays unknown. When ctx ends it
// returns ContextErr and can be called again.
func (x *Retry) Wait(ctx context.Context) (rs Results, failed any, err error) {
	for {
		if x.t == nil {
			if err := x.Begin(ctx); err != nil {
				return Results{}, nil, err
			}
		}
		rs, failed, err = x.t.Wait(ctx)
		if IsContextErr(ctx, err) {
			return Results{}, nil, err
		}
		_, _, why := x.t.call.Result()
		x.t = nil
		switch {
		case errors.Is(why, wire.ErrNotSent):
		case Transient(err), errors.Is(err, ErrSessionOver):
			x.repeated = true
		}
		if !Transient(err) {
			return rs, failed, err
		}
	}
}

// Settle is like Wait but ignores ctx once the transaction is sent.
func (x *Retry) Settle(ctx context.Context) (rs Results, failed any, err error) {
	rs, failed, err = x.Wait(ctx)
	if IsContextErr(ctx, err) && x.Unknown() {
		return x.Wait(x.s.Lifetime())
	}
	return rs, failed, err
}
