package line

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A holder releases its place, and the successor gets a signal that it is next. A waiter
// withdraws its place. A place is abandoned if it is released or withdrawn in the background, and
// later calls on the path wait for that. See package hold.

// Withdraw deletes the place of a waiter. It returns when the place is gone, or its session has
// ended.
func (p *Place) Withdraw() {
	if p.unsure { // the caller has left before the reply came
		_ = p.hold(p.Session.Lifetime(), false)
	}
	hold.Withdraw(p.thing())
}

// Delete deletes the place, once, by a transaction that begin sends.
func (p *Place) Delete(signal bool, begin hold.BeginFunc) error {
	return p.DeleteWith(signal, begin).Err()
}

// DeleteWith is like Delete, and carries out more operations in the same transaction.
func (p *Place) DeleteWith(signal bool, begin hold.BeginFunc, more ...any) zkconn.Outcome {
	if p.granted && !signal { // it was lost, which the next holder is to see
		p.holds = false
	}
	return p.deleteWith(signal, begin, more)
}

func (p *Place) deleteWith(signal bool, begin hold.BeginFunc, more []any) zkconn.Outcome {
	exit := p.Departure(signal)
	if exit.Signal != nil && !p.Session.TellsZxids() { // nobody could tell
		exit = Departure{Ops: exit.Ops[1:]}
	}
	var held []any
	if p.holds {
		held = []any{&zk.DeleteRequest{Path: p.Line.Abs() + "/" + HeldName, Version: -1}}
	}
	t, err := begin(slices.Concat(exit.Ops, held, more)...)
	if err != nil {
		return zkconn.Failure(err)
	}
	o := t.Wait(p.Session.Lifetime())
	if o.RefusedIn(held) { // somebody has deleted it
		p.holds = false
		return p.deleteWith(signal, begin, more)
	}
	if o.Applied() || o.Transient() || o.Is(zk.ErrNoNode) || o.SessionOver() || len(exit.Ops) == 1 {
		return o
	}
	return p.deleteWith(false, begin, more)
}

// Departure is what deletes a place, as a transaction or as a part of one.
type Departure struct {
	Ops    []any
	Signal *zk.SetDataRequest // to the successor, which is next; nil: none
}

// farewell is the data of a place whose holder gives up what it holds.
var farewell = []byte("released")

func (p *Place) Departure(signal bool) Departure {
	remove := &zk.DeleteRequest{Path: p.Path, Version: -1}
	if !signal {
		return Departure{Ops: []any{remove}}
	}
	if !p.Kind.Exclusive() || !p.Bears.LetsWrite() {
		return Departure{Ops: []any{remove}}
	}
	released := &zk.SetDataRequest{Path: p.Path, Data: farewell, Version: -1}
	return Departure{Ops: []any{released, remove}, Signal: released}
}

// DepartureAgain is for a transaction with an exit of the place, which failed. It returns the
// exit with which the transaction can be sent again, or why it cannot be.
func (p *Place) DepartureAgain(ctx context.Context, leave Departure, o zkconn.Outcome) (Departure, error) {
	switch {
	case o.RefusedIn(leave.Ops, zk.ErrNoNode):
		return leave, p.WhyGone(ctx)
	case o.RefusedIn(leave.Ops) && leave.Signal != nil:
		// The signal is refused, by an ACL or a quota; the place can go without.
		return p.Departure(false), nil
	}
	return leave, o.Err()
}
