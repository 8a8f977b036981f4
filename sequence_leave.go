package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// leaveLater is leave in the background; see Client.awaitAbandoned.
func (p *place) leaveLater(signal bool) {
	p.line.c.background(p.line.path, func() { p.leave(signal) })
}

// leave deletes the place, until it is gone or its session has ended, which it returns as
// ErrSessionOver. With signal, for a holder that gives up what it holds, the
// successor learns that it is next. While the Client is being closed, places are deleted
// together.
func (p *place) leave(signal bool) error {
	if p.line.c.closing.Err() == nil {
		return p.leaveAlone(signal)
	}
	<-p.s.departures.add(departure{p, signal})
	if p.s.IsOver() {
		return zkconn.ErrSessionOver
	}
	return nil
}

// leaveAlone is leave by a transaction of its own. Where the servers refuse, it goes on in
// longer and longer intervals.
func (p *place) leaveAlone(signal bool) error {
	for wait := 100 * time.Millisecond; ; {
		err := p.remove(signal, func(ops ...any) (*zkconn.Transaction, error) {
			return p.s.Begin(p.s.Lifetime(), ops...)
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zkconn.ErrSessionOver):
			return zkconn.ErrSessionOver
		case zkconn.Transient(err):
			continue
		}
		p.line.c.log(slog.LevelError, "cannot delete a place; it blocks the line until the session ends", "place", p.path, "err", err)
		if !p.pause(wait) {
			return zkconn.ErrSessionOver // it goes with the session
		}
		wait = min(2*wait, p.s.Timeout())
	}
}

// pause waits. It returns false if the session or the Client ends first.
func (p *place) pause(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-p.s.Over():
	case <-p.line.c.closing.Done():
	}
	return false
}

// remove deletes the place, once, by a transaction that begin sends.
func (p *place) remove(signal bool, begin beginFunc) error {
	if p.release != nil {
		return p.release(signal, begin)
	}
	return p.removeWith(signal, begin).Err()
}

// removeWith deletes the place and carries out more operations, in one transaction that
// begin sends.
func (p *place) removeWith(signal bool, begin beginFunc, more ...any) zkconn.Outcome {
	exit := p.exitOps(signal)
	t, err := begin(append(exit.ops, more...)...)
	if err != nil {
		return zkconn.Failure(err)
	}
	o := t.Wait(p.s.Lifetime())
	if o.Applied() || o.Transient() || o.Is(zk.ErrNoNode) || o.SessionOver() || exit.signal == nil {
		return o
	}
	exit.refused(p.s, o)
	return p.removeWith(false, begin, more...)
}

// exit is what deletes a place, as a transaction or as a part of one.
type exit struct {
	ops    []any
	signal *zk.SetDataRequest // to the successor, which is next; nil: none
}

// refused notes that an exit with a signal failed, perhaps by an ACL or a quota of the place.
// The place can go without the signal.
func (e exit) refused(s *session, o zkconn.Outcome) {
	if o.RefusedAt(e.signal) {
		s.OwnWriteFailed(o.Err())
	}
}

// farewell is the data of a place whose holder gives up what it holds.
var farewell = []byte("released")

func (p *place) exitOps(signal bool) exit {
	remove := &zk.DeleteRequest{Path: p.path, Version: -1}
	if !signal || !p.kind.exclusive() || !p.signals() || !p.s.IsOwner() {
		return exit{ops: []any{remove}}
	}
	released := &zk.SetDataRequest{Path: p.path, Data: farewell, Version: -1}
	return exit{ops: []any{released, remove}, signal: released}
}

// awaitGone waits until gone is closed, because until then the place counts. It gives up
// when there is no connection, and after the time for which a session lasts while no
// server answers.
func (p *place) awaitGone(gone <-chan struct{}) {
	tooLong := time.NewTimer(p.s.Timeout())
	defer tooLong.Stop()
	for {
		up, changed := p.s.Connected()
		if !up {
			return
		}
		select {
		case <-gone:
			return
		case <-changed:
		case <-tooLong.C:
			return
		}
	}
}

// exitAgain is for a transaction with an exit of the place, which failed. It returns the
// exit with which the transaction can be sent again, or why it cannot be.
func (p *place) exitAgain(ctx context.Context, leave exit, o zkconn.Outcome) (exit, error) {
	switch {
	case o.RefusedIn(leave.ops, zk.ErrNoNode):
		return leave, p.whyGone(ctx)
	case o.RefusedIn(leave.ops) && leave.signal != nil:
		// The signal is refused; the place can go without. If the server does not know
		// the session's identity, the receipt has shown that before.
		return p.exitOps(false), nil
	}
	return leave, o.Err()
}
