package zkrecipes

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// sending is a transaction that is sent again, in its session, until its outcome
// is known. It must be one that tells, when it comes a second time, whether the
// first was carried out: by the operation that fails.
type sending struct {
	s    *session
	ops  []any
	sent chan struct{} // closed when it is for the first time

	t     *transaction // under way
	times int          // that it was sent, or was to be
	again bool         // an earlier one may have been carried out
}

func newSending(s *session, parts ...[]any) *sending {
	return &sending{s: s, ops: slices.Concat(parts...), sent: make(chan struct{})}
}

// begin sends it. It blocks for requests to pass, not for the answer.
func (x *sending) begin(ctx context.Context) error {
	t, err := x.s.begin(ctx, x.ops...)
	if err != nil {
		return err
	}
	x.t = t
	x.times++
	select {
	case <-x.sent:
	default:
		close(x.sent)
	}
	return nil
}

// open reports that it may have been carried out, or may still be.
func (x *sending) open() bool { return x.t != nil || x.again }

// wait returns the outcome, as transaction.result does; errSessionOver, and it
// stays open, where that will not be known. When ctx ends it returns, and can be
// called again.
func (x *sending) wait(ctx context.Context) (rs []zk.MultiResponse, failed int, err error) {
	for {
		if x.t == nil {
			if err := x.begin(ctx); err != nil {
				return nil, -1, err
			}
		}
		rs, failed, err = x.t.wait(ctx)
		if left(ctx, err) {
			return nil, -1, err
		}
		_, _, why := x.t.call.Result()
		x.t = nil
		switch {
		case errors.Is(why, wire.ErrNotSent):
		case unsettled(err), errors.Is(err, errSessionOver):
			x.again = true
		}
		if !unsettled(err) {
			return rs, failed, err
		}
	}
}

// settle is wait for who cannot leave: once it is sent, ctx does not count.
func (x *sending) settle(ctx context.Context) (rs []zk.MultiResponse, failed int, err error) {
	rs, failed, err = x.wait(ctx)
	if left(ctx, err) && x.open() {
		return x.wait(context.Background()) // ends with the session
	}
	return rs, failed, err
}

// partOf tells which of the parts the failed operation belongs to, and its index
// there; -1 where none did, or the request as a whole.
func partOf(failed int, parts ...[]any) (part, op int) {
	for i, ops := range parts {
		if failed >= 0 && failed < len(ops) {
			return i, failed
		}
		failed -= len(ops)
	}
	return -1, -1
}
