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
//
// There may be alternatives to it, of which at most one can be carried out, because all
// begin with the same operation, which succeeds once. They are sent together, in their
// order: where one depends on what changes all the time, another may not.
type Retry struct {
	s    *Session
	alts [][]any
	sent chan struct{} // closed when it is sent for the first time

	underWay []*Transaction // of the alternatives, in their order
	attempts int
	repeated bool // an earlier attempt may have been carried out
}

// Retry returns the transaction of the parts' operations, in order. sent, which may
// be nil, is closed when it is sent for the first time.
func (s *Session) Retry(sent chan struct{}, parts ...[]any) *Retry {
	if sent == nil {
		sent = make(chan struct{})
	}
	return &Retry{s: s, alts: [][]any{slices.Concat(parts...)}, sent: sent}
}

// Or adds an alternative, to be tried after those that it has.
func (x *Retry) Or(parts ...[]any) { x.alts = append(x.alts, slices.Concat(parts...)) }

// Begin sends it. It blocks until requests pass, not for the answer. If the connection is
// lost after the first alternative was sent, the rest are not.
func (x *Retry) Begin(ctx context.Context) error {
	start := x.s.Start
	if x.repeated { // what it creates may exist, so it must not be refused for that
		start = x.s.StartSpare
	}
	t, err := x.s.BeginBy(ctx, start, x.alts[0]...)
	if err != nil {
		return err
	}
	x.underWay = append(x.underWay[:0], t)
	for _, ops := range x.alts[1:] {
		t, err := x.s.Start(ops...)
		if err != nil {
			break
		}
		x.underWay = append(x.underWay, t)
	}
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
func (x *Retry) Unknown() bool { return len(x.underWay) > 0 || x.repeated }

// Pending returns the only attempt, whose caller has left before its end, with all
// alternatives. It is nil where there is none, or where an earlier one may have been
// carried out.
func (x *Retry) Pending() []*Transaction {
	if x.repeated {
		return nil
	}
	return x.underWay
}

// Wait returns the outcome, as Transaction.Wait does. If the session ends first, that is a
// failure with ErrSessionOver, and what became of the transaction stays unknown. When ctx ends,
// it is a failure with ContextErr, and Wait can be called again. If there are alternatives and
// all failed, Wait returns how the one failed that got furthest, and of several the last.
func (x *Retry) Wait(ctx context.Context) Outcome {
	for {
		if len(x.underWay) == 0 {
			if err := x.Begin(ctx); err != nil {
				return Failure(err)
			}
		}
		o := x.outcome(ctx)
		if IsContextErr(ctx, o.err) {
			return o
		}
		x.underWay = nil
		if !o.Transient() {
			return o
		}
	}
}

// outcome waits for what is under way. One that was carried out decides, then one whose
// outcome is unknown.
func (x *Retry) outcome(ctx context.Context) (failed Outcome) {
	furthest := -2
	var unknown error
	for _, t := range x.underWay {
		o := t.Wait(ctx)
		if o.Applied() || IsContextErr(ctx, o.err) {
			return o
		}
		if o.Transient() || o.SessionOver() {
			_, _, why := t.call.Result()
			x.repeated = x.repeated || !errors.Is(why, wire.ErrNotSent)
			unknown = o.err
		} else if at := o.IndexIn(t.ops); at >= furthest {
			furthest, failed = at, o
		}
	}
	if unknown != nil {
		return Failure(unknown)
	}
	return failed
}

// Settle is like Wait but ignores ctx once the transaction is sent.
func (x *Retry) Settle(ctx context.Context) Outcome {
	o := x.Wait(ctx)
	if IsContextErr(ctx, o.err) && x.Unknown() {
		return x.Wait(x.s.Lifetime())
	}
	return o
}
