package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A round is one generation of a barrier: a znode with a child "ready", which is empty
// until the round is opened, and names its members from then on, and below that the
// signal. They are created in one transaction and deleted in one, so that there is none
// without the others. Rounds all have the same name and are told apart by their czxid.
// The rules were model-checked.
// Sentences with "must" are there because without them a round opens short, or stays shut
// for ever.

// participant is one call of Barrier.Wait.
type participant struct {
	*Barrier
	ctx      context.Context
	exposure atomic.Int32
	end      chan struct{}
	// began is the session in which it has sent the creation of a round that it has not joined,
	// or nil.
	began *session.Session
	long  bool
	// left is the state in which the opening has probably left the signal.
	left  signalState
	index int
	err   error
}

// What others can have seen of a participant.
const (
	unexposed int32 = iota
	// exposed: there is a member, or may be.
	exposed
	// abandoned: its caller has left before, and there will be none.
	abandoned
)

var (
	ErrExcluded = errors.New("the round was opened without this member")
	errPending  = errors.New("the round is not open")
	errNoRound  = errors.New("the round was replaced by another one")
	errNoReady  = errors.New("znode ready is missing")
	ErrWritten  = errors.New("znode ready was written by somebody else")
)

func (b *Barrier) Ready() string { return b.Round.Abs() + "/ready" }

// run joins round after round until one is opened with this member. Requests with
// Session.Lifetime are those whose outcome must be known. The caller does not wait for
// them while there is no connection.
func (a *participant) run() (int, error) {
	defer func() {
		if a.began != nil {
			a.deleteEmptyRound(a.began)
		}
	}()
	for {
		s, err := a.Line.Client.Live(a.ctx)
		if err != nil {
			return 0, err
		}
		p, err := a.join(s)
		if err == nil {
			var index int
			if index, err = a.await(p); err == nil {
				return index, nil
			}
		}
		if err != ErrExcluded && !errors.Is(err, zkconn.ErrSessionOver) {
			return 0, err
		}
	}
}

// join becomes a member of a round that is not open yet. zkconn.ErrSessionOver: there
// was no member.
func (a *participant) join(s *session.Session) (*line.Place, error) {
	if err := a.Round.CheckRoom(s, MemberKindOf(a.N)); err != nil {
		return nil, err
	}
	if err := a.CheckSize(a.ctx, s); err != nil {
		return nil, err
	}
	var last *zkconn.Watch
	exists := false
	for tries := 0; tries < zkconn.MaxTries; {
		p, refusal, err := a.sendJoin(s)
		switch {
		case p != nil:
			return p, nil
		case refusal == roundIsOpen:
			exists = false
			last, err = a.awaitPreviousRound(s, last)
		case refusal == noRound:
			last = nil
			if exists, err = a.beginRound(s, exists); errors.Is(err, zk.ErrNoNode) { // the path has been reaped
				tries++
				a.ForgetSize()
				err = a.CheckSize(a.ctx, s)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, zkconn.ErrContended
}

// joinRefusal says why a join was refused that can be tried again.
type joinRefusal int

const (
	notRefused joinRefusal = iota
	roundIsOpen
	noRound
)

// sendJoin sends one join: a transaction that checks that the round is not open, creates
// the member, and writes the round, whose Stat counts the members. No place and no error:
// none was created, and the join can be tried again.
func (a *participant) sendJoin(s *session.Session) (*line.Place, joinRefusal, error) {
	if err := s.Ready(a.ctx); err != nil {
		return nil, notRefused, err
	}
	notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
	member := a.Round.Entry(s, MemberKindOf(a.N), line.LineState{Version: -1})
	member.Create.Acl, member.Mark.Data = a.childACL(s), []byte{}
	// Before it is sent: afterwards the member may exist.
	if !a.exposure.CompareAndSwap(unexposed, exposed) && a.exposure.Load() == abandoned {
		return nil, notRefused, zkconn.ContextErr(a.ctx)
	}
	t, err := s.Start(append([]any{notOpen}, member.Ops()...)...)
	o := zkconn.Failure(err)
	if err == nil {
		var p *line.Place
		p, o = a.Round.JoinOutcome(s.Lifetime(), s, t, member)
		switch {
		case p != nil: // by the reply, or found
			a.began = nil
			return p, notRefused, nil
		case o.SessionOver(): // others may have counted it
			return nil, notRefused, fmt.Errorf("%w: %w", errs.ErrUncertain, a.Line.Client.Expired())
		}
	}
	a.exposure.CompareAndSwap(exposed, unexposed)
	switch {
	case o.Unsent():
		return nil, notRefused, nil
	case o.RefusedAt(notOpen, zk.ErrBadVersion):
		return nil, roundIsOpen, nil
	case o.RefusedAt(notOpen, zk.ErrNoNode):
		return nil, noRound, nil
	}
	return nil, notRefused, o.Err()
}

// beginRound creates a round, and returns whether there is one already. existed: there
// was one before, too. If that has no ready, nobody will ever open it.
func (a *participant) beginRound(s *session.Session, existed bool) (exists bool, err error) {
	if existed {
		names, _, err := s.Children(a.ctx, a.Round.Abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return false, err
		case !slices.Contains(names, "ready"):
			return false, errNoReady
		}
	}
	acl := a.childACL(s)
	a.began = s
	o := s.Multi(a.ctx,
		&zk.CreateRequest{Path: a.Round.Abs(), Data: []byte{}, Acl: acl},
		&zk.CreateRequest{Path: a.Ready(), Data: []byte{}, Acl: acl},
		&zk.CreateRequest{Path: a.signal(), Data: []byte{}, Acl: acl})
	switch {
	case o.Is(zk.ErrNodeExists):
		return true, nil
	case o.Transient():
		return false, nil
	}
	return false, o.Err()
}

// awaitPreviousRound is for a participant that comes while the round before is open. It
// waits for the last member to leave, and must join once more after the watch is set,
// before it waits: else that can be a member of the next round, which it watches for
// ever. Where no member is left it deletes the round: every participant must do so, since
// the last to leave may have died.
func (a *participant) awaitPreviousRound(s *session.Session, last *zkconn.Watch) (*zkconn.Watch, error) {
	if last != nil {
		select {
		case <-last.Fired():
			return nil, nil
		case <-s.Over():
			return nil, zkconn.ErrSessionOver
		case <-a.ctx.Done():
			return nil, zkconn.ContextErr(a.ctx)
		}
	}
	names, _, err := s.Children(a.ctx, a.Round.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ms := placename.ParseAll(names, MemberKinds)
	if len(ms) == 0 {
		if i := slices.IndexFunc(names, func(name string) bool { return name != "ready" }); i >= 0 {
			return nil, zkconn.Errorf(zkconn.ErrPathInUse, "path is used by something else: %s stands in the round", names[i])
		}
		return nil, a.deleteRound(a.ctx, s, 1, signalRaised)
	}
	w, err := s.Watch(a.ctx, a.Round.Abs()+"/"+slices.MaxFunc(ms, placename.Parts.Compare).Name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return w, err
}

// deleteEmptyRound deletes the round, in the background, if it is not open and nobody is in
// it: there may be no next participant who would.
func (a *participant) deleteEmptyRound(s *session.Session) {
	c := a.Line.Client
	c.Tasks.Start(func() {
		ctx, done := c.Bind(s.Lifetime())
		defer done()
		err := a.deleteRound(s.Lifetime(), s, 0, signalDown)
		for errors.Is(err, zkconn.ErrSessionOver) {
			if s, err = c.Live(ctx); err == nil {
				err = a.deleteRound(s.Lifetime(), s, 0, signalDown)
			}
		}
	})
}

// deleteRound deletes a round that has no members and whose ready has that version: 1
// once it was opened. The signal probably is in that state: if it is not, the signals
// there are get listed. Mostly another participant was quicker, so it is no error that the
// round does not exist any more. It tries until it knows: nobody else may come.
func (b *Barrier) deleteRound(ctx context.Context, s *session.Session, version int32, state signalState) error {
	check := &zk.CheckVersionRequest{Path: b.Ready(), Version: version}
	ready := &zk.DeleteRequest{Path: b.Ready(), Version: version}
	round := &zk.DeleteRequest{Path: b.Round.Abs(), Version: -1}
	signals := b.deleteSignal(state)
	for range zkconn.MaxTries {
		ops := append(append([]any{check}, signals...), ready, round)
		o := s.Multi(ctx, ops...)
		for o.Transient() {
			o = s.Multi(ctx, ops...)
		}
		switch {
		case o.RefusedAt(check, zk.ErrBadVersion):
			_, stat, err := s.Get(ctx, b.Ready())
			if err == nil && stat.Version > 1 {
				return fmt.Errorf("%w, and the round cannot be deleted", ErrWritten)
			}
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return err
		case !o.Is(zk.ErrNoNode, zk.ErrNotEmpty):
			return o.Err()
		case o.RefusedAt(check), o.RefusedAt(round):
			return nil
		}
		var foreign string
		var err error
		signals, foreign, err = b.deleteSignals(ctx, s)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case err != nil:
			return err
		case foreign != "":
			return fmt.Errorf("znode ready cannot be deleted: %s stands below it: %w", foreign, zk.ErrNotEmpty)
		}
	}
	return zkconn.ErrContended
}
