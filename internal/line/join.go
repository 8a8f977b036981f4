package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/assert"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Place is an ephemeral sequential znode in a line.
type Place struct {
	layout.PlaceName
	hold.Znode
	Line      *Line
	ACL       ACL
	LineCzxid int64
	// LineCount is how many children the line had after the join. -1: its reply was lost.
	LineCount int
	// HasTurn: it is known to be its turn.
	HasTurn bool
	// WaitedFor is the predecessor for which AwaitTurn has waited last.
	WaitedFor string
	queued    bool
	// joined is when the client knew of the place.
	joined time.Time
	// heldWritten: the line's znode of HeldName says that this place holds (delay.go). heldUnsure: it may
	// say so, because the reply was lost.
	heldWritten, heldUnsure bool
	// granted: there is, or was, a grant.
	granted bool
	// whole is the thing of which the place has become a part, nil if it is one itself.
	whole hold.Thing
}

// Acquire joins the line and waits for its turn; see InTurn.
func (l *Line) Acquire(ctx context.Context, k layout.Kind) (g *hold.Grant, err error) {
	err = l.InTurn(ctx, k, func(p *Place) error {
		g, err = p.Grant(ctx)
		return err
	})
	return g, err
}

// InTurn calls f when it is the turn of a place in the line, and its delay is over; see WithPlace.
func (l *Line) InTurn(ctx context.Context, k layout.Kind, f func(*Place) error) error {
	return l.WithPlace(ctx, k, func(p *Place, guess *Guess) error {
		var err error
		if !p.HasTurn {
			err = p.AwaitTurn(ctx, guess)
		}
		if err == nil && l.Delay > 0 {
			err = p.writeHeld(ctx, true)
		}
		if err != nil {
			return err
		}
		return f(p)
	})
}

// WithPlace joins the line and calls f with the place, and with the guess for AwaitTurn. When the
// session ends, the servers have lost the place, or somebody has deleted the tree (RejoinsIfDeleted), it
// joins again, at the tail, for as long as ctx lives.
// On any error the place is deleted, in the background if need be.
func (l *Line) WithPlace(ctx context.Context, k layout.Kind, f func(*Place, *Guess) error) error {
	for {
		p, guess, err := l.takePlace(ctx, k)
		mayBeDone := false // then it must not be done again in the next session
		if err == nil {
			if err = f(p, guess); err == nil {
				return nil
			}
			mayBeDone = errors.Is(err, errs.ErrUncertain)
			l.Client.Tasks.Start(p.Withdraw) // I6
		}
		if mayBeDone || !errors.Is(err, zkconn.ErrSessionOver) && !errors.Is(err, errs.ErrPlaceLost) && !(errors.Is(err, errs.ErrEvicted) && p.treeDeleted(ctx)) {
			return err
		}
	}
}

// takePlace joins the line in the Client's session.
func (l *Line) takePlace(ctx context.Context, k layout.Kind) (*Place, *Guess, error) {
	for {
		s, err := l.Client.Live(ctx)
		if err != nil {
			return nil, nil, err
		}
		p, guess, err := l.Join(ctx, s, k)
		if err == nil {
			return p, guess, nil
		}
		if err := l.rollOver(ctx, err, awaitLast); err != nil {
			return nil, nil, err
		}
	}
}

// List returns the places in the line, in no order.
func (l *Line) List(ctx context.Context, s *session.Session) ([]layout.PlaceName, error) {
	_, ms, _, err := l.look(ctx, s)
	return ms, err
}

// look returns the line's children, the places among them, and the line's Stat.
func (l *Line) look(ctx context.Context, s *session.Session) (children []string, ms []layout.PlaceName, stat *zk.Stat, err error) {
	children, stat, err = s.Children(ctx, l.Abs())
	if err != nil {
		return nil, nil, nil, err
	}
	ms = layout.ParsePlaces(children, l.Kinds)
	for _, m := range ms {
		if m.Kind == layout.KindLatch || l.Foreign(m.Kind) {
			return nil, nil, nil, zkconn.Errorf(zkconn.ErrPathInUse, "%s stands in a line of a %s: another recipe uses this path", m.Name, l.Recipe)
		}
	}
	if err := layout.CheckChildren(ctx, s.Session, l.Abs(), children); err != nil {
		return nil, nil, nil, err
	}
	l.noteChildren(len(children), len(ms))
	return children, ms, stat, nil
}

// CheckRoom returns ErrSessionFull if the session has no room for a place in the line. Else
// a line might be created, in which nobody ever stands.
func (l *Line) CheckRoom(s *session.Session, k layout.Kind) error {
	return s.CheckRoom(zkconn.Weight(l.Abs()+"/_c_"+layout.NoUUID+"-"+string(k), true))
}

// Join takes a place by one transaction. It writes the line's data too, because the
// Stat that this returns tells whether the place is alone and what its czxid is. It also returns a
// guess of the predecessor, if it has one. If ctx ends before it is known whether a place was taken,
// the background finds out and deletes it.
func (l *Line) Join(ctx context.Context, s *session.Session, k layout.Kind) (*Place, *Guess, error) {
	// The background work that this starts must be counted before Close waits for it.
	l.Client.Tasks.Add()
	defer l.Client.Tasks.End()
	if err := l.CheckRoom(s, k); err != nil {
		return nil, nil, err
	}
	for tries := 0; tries < zkconn.MaxTries; {
		state, err := l.ensure(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		// Each attempt has a name of its own, so that an attempt whose outcome is
		// unknown is never taken for another (I1).
		e := l.JoinRequest(s, k, state)
		t, err := l.begin(ctx, s, e)
		if err != nil {
			return nil, nil, err
		}
		p, o := l.JoinOutcome(ctx, s, t, e)
		switch {
		case p != nil && e.before != nil:
			return p, e.guess(p), nil
		case p != nil:
			return p, nil, nil
		}
		if !o.Unsent() {
			if err := l.notJoined(e, o); err != nil {
				return nil, nil, err
			}
			tries++
		}
	}
	return nil, nil, zkconn.ErrContended
}

// JoinOutcome waits for a transaction that takes a place, and returns the place. If none was
// taken and the join can be tried again, the outcome is Unsent.
func (l *Line) JoinOutcome(ctx context.Context, s *session.Session, t *zkconn.Transaction, e *JoinRequest) (*Place, zkconn.Outcome) {
	o := t.Wait(ctx)
	switch {
	case o.Applied():
		p, err := l.entered(ctx, s, e, o)
		return p, zkconn.Failure(err)
	case o.Unsent():
		return nil, o
	case ctx.Err() != nil, o.Transient():
		p, err := l.settleJoin(ctx, s, t, e)
		return p, zkconn.Failure(err)
	}
	return nil, o
}

// notJoined returns nil if a join that was refused can be tried again, and otherwise why not.
func (l *Line) notJoined(e *JoinRequest, o zkconn.Outcome) error {
	switch {
	case o.Is(zk.ErrNoNode), o.RefusedAt(e.Marker, zk.ErrBadVersion): // it is not what it was known to be
		l.forget()
		return nil
	case o.RefusedAt(e.Marker, zk.ErrNoAuth):
		return fmt.Errorf("the data of %s, which each join sets, may not be written: %w", l.Abs(), o.Err())
	case o.SessionOver():
		return ErrJoinLost
	}
	return o.Err()
}

// ErrJoinLost is returned if the session ended before the reply came, so that there may have been
// a place.
var ErrJoinLost = fmt.Errorf("the reply to a join was lost: %w", zkconn.ErrSessionOver)

// JoinRequest is what takes a place, as a transaction or as the last part of one.
type JoinRequest struct {
	uuid   string
	Create *zk.CreateRequest
	Marker *zk.SetDataRequest // of the line's data
	kind   layout.Kind
	state  LineState
	// before is what the line's data were right before, nil if they were not read.
	before *zkconn.Reading
}

func (l *Line) JoinRequest(s *session.Session, k layout.Kind, state LineState) *JoinRequest {
	e := &JoinRequest{uuid: layout.NewUUID(), kind: k, state: state}
	if l.NamePlace != nil {
		e.uuid = l.NamePlace(s, e.uuid)
	}
	name := "_c_" + e.uuid + "-" + string(k)
	e.Create = &zk.CreateRequest{
		Path:  l.Abs() + "/" + name,
		Data:  []byte(l.Client.Identity),
		Acl:   state.ForPlaces(s.Session),
		Flags: zk.FlagEphemeral | zk.FlagSequence,
	}
	e.Marker = &zk.SetDataRequest{Path: l.Abs(), Data: layout.Record(l.Recipe, state.Fingerprint, name), Version: state.Version}
	return e
}

// Ops returns the operations.
func (e *JoinRequest) Ops() []any { return []any{e.Create, e.Marker} }

// entered makes the place of a join that was carried out. The line's Stat tells
// whether the place is alone.
func (l *Line) entered(ctx context.Context, s *session.Session, e *JoinRequest, o zkconn.Outcome) (*Place, error) {
	stat := o.Stat(e.Marker) // of the transaction that created the place
	p, err := l.newPlace(ctx, s, e, o.Created(e.Create)[len(l.Abs())+1:], stat.Czxid)
	if err != nil {
		return nil, err
	}
	p.ACL = l.noteMarked(s, e.state, stat)
	p.Czxid, p.LineCount = stat.Mzxid, int(stat.NumChildren)
	p.HasTurn = p.LineCount == 1
	l.noteCount(p.LineCount)
	return p, nil
}

// newPlace makes a place of a znode's name in the line with that czxid.
func (l *Line) newPlace(ctx context.Context, s *session.Session, e *JoinRequest, name string, line int64) (*Place, error) {
	m, ok := layout.ParsePlace(name, l.Kinds)
	p := &Place{PlaceName: m, Znode: hold.Znode{Session: s, Path: l.Abs() + "/" + name}, Line: l, ACL: e.state.ACL, LineCzxid: line, LineCount: -1, joined: time.Now()}
	switch {
	case !ok: // no server creates such a name
		l.Client.Tasks.Start(p.Withdraw)
		return nil, fmt.Errorf("a place was created with the invalid name %q", name)
	case IsBeyondLimit(l.Client, m.Number): // I5
		return nil, p.withdrawExhausted(ctx)
	}
	if assert.Failed != nil && m.UUID != e.uuid {
		assert.Failed("I1")
	}
	return p, nil
}

// IsBeyondLimit reports whether no place with that number is granted.
func IsBeyondLimit(c *session.Client, number int32) bool {
	return number < 0 || number > settingsOf(c).LastNumber
}

// IsAlone reports whether nobody waits behind the place, if the line has those children and
// that Stat. Once the line's numbers are beyond the limit, callers that step aside may wait,
// and do not stand in the line.
func (p *Place) IsAlone(children []string, stat *zk.Stat) bool {
	ms := layout.ParsePlaces(children, p.Line.Kinds)
	return len(ms) == 1 && ms[0].Name == p.Name && !IsBeyondLimit(p.Line.Client, nextNumber(stat))
}

// Exclusive reports whether the place holds alone.
func (p *Place) Exclusive() bool { return p.Kind.Exclusive() }

// Become makes the place a part of t, which embeds it: what is granted and deleted from then on is t.
func (p *Place) Become(t hold.Thing) { p.whole = t }

func (p *Place) thing() hold.Thing {
	if p.whole != nil {
		return p.whole
	}
	return p
}

// Grant grants the place, whose turn it is.
func (p *Place) Grant(ctx context.Context) (*hold.Grant, error) {
	if assert.Failed != nil && IsBeyondLimit(p.Line.Client, p.Number) {
		assert.Failed("I5")
	}
	p.granted = true
	g, err := hold.New(ctx, p.Line.At, p.thing(), 0)
	if err != nil {
		p.granted = false
	}
	return g, err
}

func (p *Place) place() *Place { return p }

// PlaceOf returns the place that a grant holds, nil if what it holds stands in no line.
func PlaceOf(g *hold.Grant) *Place {
	if t, ok := g.Thing().(interface{ place() *Place }); ok {
		return t.place()
	}
	return nil
}

// begin sends a join, and a read of the line's data before it if they are for a guess.
func (l *Line) begin(ctx context.Context, s *session.Session, e *JoinRequest) (t *zkconn.Transaction, err error) {
	if !e.state.crowd.isLong(settingsOf(l.Client).LongLine) || !l.mayGuess(s, e.state, e.kind) {
		return s.Begin(ctx, e.Ops()...)
	}
	e.before, t, err = s.BeginBehindGet(ctx, e.Marker.Path, e.Ops()...)
	return t, err
}
