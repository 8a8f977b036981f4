package barrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A round is one generation of a barrier: a znode with a child "ready", which is empty
// until the round is opened, and names its members from then on, and below that the signal. They
// are created in one transaction and deleted in one, so that there is none without the others.
// Rounds all have the same name and are told apart by their czxid.
// Where a comment below says "must", a round would open short otherwise, or stay shut for ever.

// join becomes a member of a round that is not open yet. The first to come creates the round by
// the transaction that makes it a member. zkconn.ErrSessionOver: there was no member.
func (a *participant) join(s *session.Session) (p *line.Place, err error) {
	if err := a.CheckRoom(s, a.kind()); err != nil {
		return nil, err
	}
	if err := a.CheckSize(a.ctx, s); err != nil {
		return nil, err
	}
	var o zkconn.Outcome
	var last *zkconn.Watch
	create, created := false, false
	for tries := 0; tries < zkconn.MaxTries && err == nil; {
		acl := a.childACL(s)
		notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
		round := &zk.CreateRequest{Path: a.Abs(), Data: []byte{}, Acl: acl}
		ops := []any{notOpen}
		if create {
			created = true
			ops = []any{round,
				&zk.CreateRequest{Path: a.Ready(), Data: []byte{}, Acl: acl},
				&zk.CreateRequest{Path: a.signal(), Data: []byte{}, Acl: acl}}
		}
		p, o, err = a.sendJoin(s, acl, ops)
		switch {
		case p != nil:
			return p, nil
		case err != nil, o.Unsent():
		case o.RefusedAt(notOpen, zk.ErrBadVersion):
			tries = 0
			last, err = a.awaitPreviousRound(s, last)
		case o.RefusedAt(notOpen, zk.ErrNoNode):
			last, create = nil, true
		case o.RefusedAt(round, zk.ErrNodeExists): // by somebody else, or without ready
			tries++
			create = false
		case create && o.Is(zk.ErrNoNode): // the path has been reaped
			tries++
			a.forgetSize()
			err = a.CheckSize(a.ctx, s)
		default:
			err = o.Err()
		}
	}
	if created || errors.Is(err, errs.ErrUncertain) { // a round may be left, and nobody may come who would delete it
		a.deleteEmptyRound(s)
	}
	return nil, cmp.Or(err, zkconn.ErrContended)
}

// sendJoin sends one join: a transaction that begins with ops, which check that the round is not
// open, or create it. Then it creates the member, and writes the round, whose Stat counts the
// members. If none was created and the join can be sent again, the outcome is Unsent.
func (a *participant) sendJoin(s *session.Session, acl []zk.ACL, ops []any) (p *line.Place, o zkconn.Outcome, err error) {
	if err := s.Ready(a.ctx); err != nil {
		return nil, o, err
	}
	a.exposed.Store(true) // first: a caller whose context ends now may look at once
	defer func() { a.exposed.Store(p != nil || errors.Is(err, errs.ErrUncertain)) }()
	if a.ctx.Err() != nil {
		return nil, o, s.ContextErr(a.ctx)
	}
	member := a.JoinRequest(s, a.kind(), line.LineState{Version: -1})
	member.Create.Acl, member.Marker.Data = acl, []byte{}
	t, err := s.Start(append(ops, member.Ops()...)...)
	if err != nil {
		return nil, zkconn.Failure(err), nil
	}
	p, o = a.JoinOutcome(s.UntilAnswered(), s, t, member)
	if o.SessionOver() { // others may have counted it
		err = fmt.Errorf("%w: %w", errs.ErrUncertain, a.Client.Expired())
	}
	return p, o, err
}

// awaitPreviousRound is for a participant that comes while the round before is open. It
// waits for the last member to leave, and must join once more after the watch is set,
// before it waits: else that can be a member of the next round, which it watches for
// ever. Where no member is left it deletes the round: every participant must do so, since
// the last to leave may have died.
func (a *participant) awaitPreviousRound(s *session.Session, last *zkconn.Watch) (*zkconn.Watch, error) {
	if last != nil {
		return nil, zkconn.Until(a.ctx, s.Session, last.Fired())
	}
	names, _, err := s.Children(a.ctx, a.Abs())
	if err == nil {
		ms := layout.ParsePlaces(names, MemberKinds)
		if len(ms) == 0 {
			if i := slices.IndexFunc(names, func(name string) bool { return name != "ready" }); i >= 0 {
				return nil, zkconn.Errorf(zkconn.ErrPathInUse, "path is used by something else: %s stands in the round", names[i])
			}
			return nil, a.deleteRound(a.ctx, s, -1)
		}
		last, err = s.Watch(a.ctx, a.Abs()+"/"+slices.MaxFunc(ms, layout.PlaceName.Compare).Name)
	}
	if errors.Is(err, zk.ErrNoNode) && !errs.IsContextErr(a.ctx, err) {
		return nil, nil
	}
	return last, err
}

// deleteEmptyRound deletes the round, in the background, if it is not open and nobody is in
// it: there may be no next participant who would.
func (b *Barrier) deleteEmptyRound(s *session.Session) {
	b.Client.Tasks.Start(func() {
		ctx, done := b.Client.Bind(context.Background())
		defer done()
		for err := b.deleteRound(s.UntilAnswered(), s, 0); errors.Is(err, zkconn.ErrSessionOver); {
			if s, err = b.Client.Live(ctx); err == nil {
				err = b.deleteRound(s.UntilAnswered(), s, 0)
			}
		}
	})
}

// deleteRound deletes a round that has no members, if it was never opened where version is 0, or
// in any case where it is -1. Mostly another participant was quicker, so it is no error that the
// round does not exist any more. It tries until it knows: nobody else may come.
func (b *Barrier) deleteRound(ctx context.Context, s *session.Session, version int32) (err error) {
	check := &zk.CheckVersionRequest{Path: b.Ready(), Version: version}
	ready := &zk.DeleteRequest{Path: b.Ready(), Version: -1}
	round := &zk.DeleteRequest{Path: b.Abs(), Version: -1}
	signal := []any{&zk.DeleteRequest{Path: b.signal(), Version: -1}}
	if version != 0 { // then it was raised, as a rule
		signal = slices.Insert(signal, 0, any(&zk.DeleteRequest{Path: b.signal() + "/" + signalOpen, Version: -1}))
	}
	var o zkconn.Outcome
	for range zkconn.MaxTries {
		o = s.Retry(nil, []any{check}, signal, []any{ready, round}).Wait(ctx)
		switch {
		case o.RefusedAt(check, zk.ErrNoNode, zk.ErrBadVersion), o.RefusedAt(round):
			return nil
		case !o.Is(zk.ErrNoNode, zk.ErrNotEmpty):
			return o.Err()
		}
		if signal, err = b.deleteSignals(ctx, s); err != nil {
			return err
		}
	}
	return fmt.Errorf("znode ready cannot be deleted: %w", o.Err())
}

// finish ends the participation of the member p with an index, or for that reason. Then it must
// be so on the servers, too, that no round was, or will be, opened with it.
func (a *participant) finish(p *line.Place, index int, why error) (int, error) {
	s := p.Session
	switch {
	case why == nil:
		a.leave(p)
		return index, nil
	case why == ErrExcluded:
		a.exposed.Store(false)
		if gone := <-a.leave(p); errors.Is(gone, errs.ErrEvicted) {
			return 0, gone
		}
		return 0, why
	case errs.IsContextErr(a.ctx, why):
	case errors.Is(why, zk.ErrNoNode): // as is the member, as a rule, which is deleted otherwise
		why = p.WhyGone(s.UntilAnswered())
	}
	if errors.Is(why, zkconn.ErrSessionOver) {
		why = a.Client.Expired()
	}
	member := &zk.DeleteRequest{Path: p.Path, Version: -1}
	notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}
	round := &zk.SetDataRequest{Path: a.Abs(), Data: []byte{}, Version: -1}
	switch o := s.Retry(nil, []any{member, notOpen, round}).Wait(s.UntilAnswered()); {
	case o.Applied():
		if o.Stat(round).NumChildren == 1 {
			a.deleteEmptyRound(s)
		}
		return 0, why
	case o.RefusedAt(notOpen):
		defer a.leave(p) // until then it keeps the round from being deleted
		return a.outcome(p, why)
	case o.RefusedAt(member, zk.ErrNoNode), o.SessionOver():
		return a.outcome(p, why)
	default:
		a.Client.Tasks.Start(p.Withdraw)
		return 0, fmt.Errorf("%w: %w: %w", errs.ErrUncertain, why, o.Err())
	}
}

// leave deletes the member in the background, and then sends why it was gone before, nil if it was not.
// A member that sees that it was the last deletes the round. While connected, leave sends the request
// before it returns. Otherwise the Client's next join could come first, and wait for this member.
func (a *participant) leave(p *line.Place) <-chan error {
	s, round := p.Session, &zk.SetDataRequest{Path: a.Abs(), Data: []byte{}, Version: -1}
	member := &zk.DeleteRequest{Path: p.Path, Version: -1}
	t, err := s.Start(member, round)
	gone := make(chan error, 1)
	a.Client.Tasks.Start(func() {
		var why error
		defer func() { gone <- why }()
		o := zkconn.Failure(err)
		if err == nil {
			o = t.Wait(s.UntilAnswered())
		}
		if o.RefusedAt(member, zk.ErrNoNode) {
			why = p.WhyGone(s.UntilAnswered())
		}
		if !o.Applied() { // then it is not known whether it was the last
			p.Withdraw()
		}
		if !o.Applied() || o.Stat(round).NumChildren == 1 {
			_ = a.deleteRound(s.UntilAnswered(), s, -1) // if it fails, the next to come deletes the round
		}
	})
	return gone
}

// outcome finds out whether the round was opened with a member that is gone, or stands in an open
// round, and no longer waits for that reason, which is the outcome otherwise. It must not believe
// another round's ready.
func (a *participant) outcome(p *line.Place, why error) (int, error) {
	ctx, done := a.Client.Bind(context.Background())
	defer done()
	for s, err := p.Session, error(nil); ; s, err = a.Client.Live(ctx) {
		if err == nil {
			err = s.Sync(s.UntilAnswered(), a.Ready())
		}
		index := 0
		if err == nil {
			index, err = a.read(s, p)
		}
		switch {
		case errors.Is(err, zkconn.ErrSessionOver):
		case err == nil:
			return index, nil
		case err == errPending:
			a.deleteEmptyRound(s)
			return 0, why
		case err == ErrExcluded, errors.Is(err, errs.ErrSize):
			return 0, why
		case errors.Is(err, why):
			return 0, fmt.Errorf("%w: %w", errs.ErrUncertain, why)
		default:
			return 0, fmt.Errorf("%w: %w: %w", errs.ErrUncertain, why, err)
		}
	}
}
