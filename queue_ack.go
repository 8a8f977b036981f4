package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// ending is the transaction that removes an item: an ack, which carries the
// caller's operations, or the move to another queue.
//
// Sent again after a lost reply, it fails at the claim if it was carried out, and
// if the claim was deleted by somebody else. For a mere ack the two are as good as
// one, save for a delivery more; with the caller's operations a receipt tells.
type ending struct {
	it    *Item
	claim *place
	ops   []any  // the caller's
	to    *stock // where the item is moved to, or nil
	line  *line  // in which a place is to be taken along, or nil
	place *place // that was; there may be none
	sent  chan struct{}
}

// run carries the transaction out, or learns that it was not.
func (e *ending) run(ctx context.Context) error {
	e.claim, e.sent = e.it.lease.g.place(), make(chan struct{})
	return e.it.lease.g.conclude(ctx, e.sent, func() (done bool, err error) {
		for range maxTries {
			again := false
			if done, again, err = e.try(ctx); !again {
				return done, err
			}
		}
		return false, errContended
	})
}

// try sends it until the outcome is known; again: it was not carried out, and the
// next one may be.
func (e *ending) try(ctx context.Context) (done, again bool, err error) {
	s, q := e.claim.s, e.it.q
	st := s.stockOf(q.abs())
	var receipt, body []any
	var sl *slot
	var d *deposit
	switch {
	case e.to != nil:
		if d, err = e.to.deposit(ctx, []newItem{{e.it.ID, e.it.Data}}, q.segment); err != nil {
			return false, false, err
		}
		body = d.ops
	case len(e.ops) > 0:
		if sl, err = st.slot(ctx); err != nil {
			return false, false, err
		}
		receipt, body = sl.write(e.claim.name), e.ops
	}
	var next entry
	if e.line != nil {
		if state, err := e.line.look(ctx, s); err == nil {
			next = e.line.entry(s, kindLock, state)
		}
	}
	claim := e.claim.ackOps()
	x := newSending(s, receipt, claim, body, next.ops)
	x.sent = e.sent
	rs, failed, err := x.settle(ctx)
	part, op := partOf(failed, receipt, claim, body, next.ops)
	switch {
	case err == nil:
		if sl != nil {
			st.written(sl)
		}
		if d != nil {
			d.done(rs[len(claim):])
		}
		if next.ops != nil {
			e.place, _ = e.line.entered(ctx, s, next, rs[len(rs)-len(next.ops):])
		}
		return true, false, nil
	case part == 0:
		if done, err = st.refused(sl, x.again, err); done {
			e.find(next)
		}
		return done, !done && err == nil, err
	case sl != nil && failed < 0 && x.open():
		st.discard(sl)
	case sl != nil:
		st.unused(sl)
	}
	switch {
	case failed < 0 && x.open():
		return false, false, fmt.Errorf("%w: %w", ErrUncertain, err)
	case failed < 0 && next.ops != nil && !s.isOver() && ctx.Err() == nil, part == 3: // there may be no room for it
		e.line.refused(op, err)
		e.line = nil
		return false, true, nil
	case part == 1 && op == 0 && x.again && sl == nil && errors.Is(err, zk.ErrNoNode) && !e.claim.sweepClaim():
		e.find(next)
		return true, false, nil
	case part == 1 && op < 2 && errors.Is(err, zk.ErrNoNode):
		return false, false, lost(errDeleted)
	case part == 1 && op == 0 && x.again && sl == nil:
		return false, false, fmt.Errorf("%w: %w", ErrUncertain, err)
	case part == 2 && d != nil && d.refused(op, err):
		return false, true, nil
	case part == 2 && d == nil:
		return false, false, fmt.Errorf("operation %d: %w", op, err)
	}
	return false, false, err
}

// find looks for the place of an ending that was carried out, and not answered.
func (e *ending) find(next entry) {
	if next.ops != nil {
		e.place, _ = e.line.recover(e.claim.s, next.uuid)
	}
}

// mapOps returns the caller's operations as they are to be sent, with data of
// their own: they may be sent when the caller has left.
func (q *Queue) mapOps(ops []any) ([]any, error) {
	mapped := make([]any, len(ops))
	for i, op := range ops {
		m, err := q.c.mapOp(op)
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		switch m := m.(type) {
		case *zk.CreateRequest:
			m.Data = slices.Clone(m.Data)
		case *zk.SetDataRequest:
			m.Data = slices.Clone(m.Data)
		}
		mapped[i] = m
	}
	return mapped, nil
}
