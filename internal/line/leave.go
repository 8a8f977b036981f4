package line

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A holder releases its place, and its successor gets a signal that it is next. A waiter withdraws
// its place. What a caller has left to the background is abandoned. Package hold has a table of the
// three. Each deletes the place, by the operations of a Deletion.

// Withdraw deletes the place of a waiter. It returns when the place is gone, or its session has
// ended.
func (p *Place) Withdraw() {
	if p.heldUnsure { // the caller has left before the reply came
		_ = p.writeHeld(p.Session.UntilAnswered(), false)
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
		p.heldWritten = false
	}
	return p.deleteWith(signal, begin, more)
}

func (p *Place) deleteWith(signal bool, begin hold.BeginFunc, more []any) zkconn.Outcome {
	d := p.Deletion(signal)
	if d.Signal != nil && !p.Session.TellsZxids() { // nobody could tell
		d = Deletion{Ops: d.Ops[1:]}
	}
	var held []any
	if p.heldWritten {
		held = []any{&zk.DeleteRequest{Path: p.Line.Abs() + "/" + HeldName, Version: -1}}
	}
	t, err := begin(slices.Concat(d.Ops, held, more)...)
	if err != nil {
		return zkconn.Failure(err)
	}
	o := t.Wait(p.Session.UntilAnswered())
	if o.RefusedIn(held) { // somebody has deleted it
		p.heldWritten = false
		return p.deleteWith(signal, begin, more)
	}
	if o.Applied() || o.Transient() || o.Is(zk.ErrNoNode) || o.SessionOver() || len(d.Ops) == 1 {
		return o
	}
	return p.deleteWith(false, begin, more)
}

// Deletion has the operations that delete a place, as a transaction or as a part of one.
type Deletion struct {
	Ops    []any
	Signal *zk.SetDataRequest // to the successor, which is next; nil: none
}

// releasedData is the data of a place whose holder gives up what it holds.
var releasedData = []byte("released")

// Deletion returns the operations. signal: the place is released, so its successor may get a signal. No
// other write of a place's data has that form (I4).
func (p *Place) Deletion(signal bool) Deletion {
	remove := &zk.DeleteRequest{Path: p.Path, Version: -1}
	if !signal || !p.Kind.Exclusive() || !p.ACL.letsWrite() {
		return Deletion{Ops: []any{remove}}
	}
	released := &zk.SetDataRequest{Path: p.Path, Data: releasedData, Version: -1}
	return Deletion{Ops: []any{released, remove}, Signal: released}
}

// DeletionAgain is for a transaction with a deletion of the place, which failed. It returns the
// deletion with which the transaction can be sent again, or why it cannot be.
func (p *Place) DeletionAgain(ctx context.Context, d Deletion, o zkconn.Outcome) (Deletion, error) {
	switch {
	case o.RefusedIn(d.Ops, zk.ErrNoNode):
		return d, p.WhyGone(ctx)
	case o.RefusedIn(d.Ops) && d.Signal != nil:
		// The signal is refused, by an ACL or a quota; the place can go without.
		return p.Deletion(false), nil
	}
	return d, o.Err()
}
