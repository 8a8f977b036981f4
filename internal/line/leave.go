package line

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A holder releases its place, and the successor gets a signal that it is next. A waiter
// withdraws its place. A place is abandoned if it is released or withdrawn in the background, and
// later calls on the path wait for that.

// Withdraw deletes the place of a waiter. It returns when the place is gone, or its session has
// ended.
func (p *Place) Withdraw() { _ = p.leave(false) }

// Abandon is Withdraw in the background; see Line.AwaitAbandoned.
func (p *Place) Abandon() { p.abandon(false) }

func (p *Place) abandon(signal bool) {
	p.Line.Background(func() { _ = p.leave(signal) })
}

// leave deletes the place, until it is gone or its session has ended, which it returns as
// ErrSessionOver, or zk.ErrNoNode if it was gone before. Where the servers refuse, it goes on in
// longer and longer intervals. A Client that is being closed is about to end its session, which
// deletes all its places at once.
func (p *Place) leave(signal bool) error {
	if p.unsure { // the caller has left before the reply came
		_ = p.hold(p.Session.Lifetime(), false)
	}
	for wait := 100 * time.Millisecond; p.Line.Client.Closing.Err() == nil; {
		err := p.remove(signal, func(ops ...any) (*zkconn.Transaction, error) {
			return p.Session.Begin(p.Session.Lifetime(), ops...)
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return err
		case errors.Is(err, zkconn.ErrSessionOver):
			return zkconn.ErrSessionOver
		case zkconn.Transient(err):
			continue
		}
		p.Line.Client.Log(slog.LevelError, "cannot delete a place; it blocks the line until the session ends", "place", p.Path, "err", err)
		if !p.Pause(wait) {
			return zkconn.ErrSessionOver
		}
		wait = min(2*wait, p.Session.Timeout())
	}
	return zkconn.ErrSessionOver
}

// Pause waits. It returns false if the session or the Client ends first.
func (p *Place) Pause(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-p.Session.Over():
	case <-p.Line.Client.Closing.Done():
	}
	return false
}

// remove deletes the place, once, by a transaction that begin sends.
func (p *Place) remove(signal bool, begin BeginFunc) error {
	if p.Release != nil {
		return p.Release(signal, begin)
	}
	return p.RemoveWith(signal, begin).Err()
}

// RemoveWith deletes the place and carries out more operations, in one transaction that
// begin sends.
func (p *Place) RemoveWith(signal bool, begin BeginFunc, more ...any) zkconn.Outcome {
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
		return p.RemoveWith(signal, begin, more...)
	}
	if o.Applied() || o.Transient() || o.Is(zk.ErrNoNode) || o.SessionOver() || len(exit.Ops) == 1 {
		return o
	}
	return p.RemoveWith(false, begin, more...)
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
