package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The ordering core: join a line, learn one's place, wait for the predecessor,
// leave. The protocol was model-checked. Sentences with "must" are there because
// without them two places are granted at once, or one waits for ever.

// place is an ephemeral sequential znode in a line.
type place struct {
	placeName
	line      *line
	s         *session
	bears     lineACL       // the line
	path      string        // absolute
	czxid     int64         // of the znode; 0: not known yet
	nth       int           // of the places that one transaction has created, if each gets a grant
	lineCzxid int64         // czxid of the line's znode; 0: not known
	lineCount int           // of the line's children after the join; -1: not known
	first     bool          // known to be first in the line
	guessed   *placeName    // probably its predecessor, see guess
	ahead     int           // how many places probably are ahead of it, if there is a guess
	turnConn  uint64        // the connection whose event said so, 0 if a reply did
	own       *zkconn.Watch // on path; nil: none yet
	queued    bool          // tellQueued was called

	// release, if set, is called instead of remove: for places that are more than one
	// znode.
	release func(signal bool, begin beginFunc) error
	// deletes, set with release, are the operations that delete all of it together with other
	// places; nil where it must be deleted by itself.
	deletes func(signal bool) []any
	// others are paths of further znodes without which the place does not hold.
	others []string
	// checked are paths of znodes that are not the place's, and without which it does not hold
	// either. The recipe watches them.
	checked []string
}

// paths returns the paths of all znodes without which the place does not hold.
func (p *place) paths() []string { return append([]string{p.path}, p.others...) }

// guarded returns the paths of all znodes that a Commit checks.
func (p *place) guarded() []string { return append(p.paths(), p.checked...) }

// has reports whether guarded contains path.
func (p *place) has(path string) bool { return slices.Contains(p.guarded(), path) }

// beginFunc sends a transaction: zkconn.Session.Begin or Start.
type beginFunc func(ops ...any) (*zkconn.Transaction, error)

// turnBefore reports whether an event of another connection than conn said that it
// is the place's turn.
func (p *place) turnBefore(conn uint64) bool { return p.turnConn != 0 && p.turnConn != conn }

// enter joins the line and waits for its turn; see inTurn.
func (l *line) enter(ctx context.Context, k kind) (g *grant, err error) {
	err = l.inTurn(ctx, k, nil, func(p *place) error {
		g, err = p.grant(ctx)
		return err
	})
	return g, err
}

// inTurn calls f when it is the turn of a place in the line; see withPlace.
func (l *line) inTurn(ctx context.Context, k kind, p *place, f func(*place) error) error {
	return l.withPlace(ctx, k, p, func(p *place) error {
		if err := p.awaitTurn(ctx); err != nil {
			return err
		}
		return f(p)
	})
}

// withPlace joins the line, unless the caller has a place in it already, and calls f
// with the place. When the session ends it joins again in the next one, at the tail,
// for as long as ctx lives. On any error the place is deleted, in the background if
// need be.
func (l *line) withPlace(ctx context.Context, k kind, p *place, f func(*place) error) error {
	for ; ; p = nil {
		var err error
		if p == nil {
			p, err = l.takePlace(ctx, k)
		}
		mayBeDone := false // then it must not be done again in the next session
		if err == nil {
			if err = f(p); err == nil {
				return nil
			}
			mayBeDone = errors.Is(err, coreErrUncertain)
			gone := p
			l.c.tasks.Start(func() { gone.leave(false) })
		}
		if mayBeDone || !errors.Is(err, zkconn.ErrSessionOver) && !(errors.Is(err, coreErrEvicted) && p.lineDeleted(ctx)) {
			return err
		}
	}
}

// tryEnter is like enter but returns ErrLocked instead of waiting. A line that is
// held costs one read and no write.
func (l *line) tryEnter(ctx context.Context, k kind) (*grant, error) {
	return inSessions(ctx, l.c, func(s *session) (*grant, error) { return l.tryEnterIn(ctx, s, k) })
}

func (l *line) tryEnterIn(ctx context.Context, s *session, k kind) (g *grant, err error) {
	err = l.tryInTurn(ctx, s, k, func(p *place) error {
		g, err = p.grant(ctx)
		return err
	})
	return g, err
}

// tryInTurn is like inTurn in one session, but returns ErrLocked instead of waiting.
func (l *line) tryInTurn(ctx context.Context, s *session, k kind, f func(*place) error) error {
	if err := l.checkRoom(s, k); err != nil {
		return err
	}
	blocked, err := l.isBlocked(ctx, s, k)
	if err != nil {
		return err
	}
	if blocked {
		return coreErrLocked
	}
	p, err := l.join(ctx, s, k)
	if x := (*beyondLimit)(nil); errors.As(err, &x) {
		if err := x.awaitReset(ctx, x.locked); err != nil {
			return err
		}
		return l.tryInTurn(ctx, s, k, f)
	}
	if err != nil {
		return err
	}
	if !p.first {
		var pred *placeName
		if pred, _, err = p.predecessor(ctx); err == nil && pred != nil {
			err = coreErrLocked
		}
	}
	if err == nil {
		if err = f(p); err == nil {
			return nil
		}
	}
	l.c.tasks.Start(func() { p.leave(false) })
	return err
}

// isBlocked reports whether a place that blocks one of that kind stands in the line. It lists
// the line. But if that is long, or not known, it asks first whether the place that joined
// last still stands, which the line's data name.
func (l *line) isBlocked(ctx context.Context, s *session, k kind) (bool, error) {
	if l.mayBeLong() && !s.hasUnresolved() {
		data, stat, err := s.Get(ctx, l.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.NumChildren == 0:
			return false, nil
		case err != nil:
			return false, err
		}
		l.noteCount(int(stat.NumChildren))
		if stands, err := l.tailStands(ctx, s, k, data, stat); stands || err != nil {
			return stands, err
		}
	}
	ms, err := l.list(ctx, s)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false, err
	}
	return slices.ContainsFunc(ms, func(m placeName) bool { return l.blocks(k, m.kind) }), nil
}

// tailStands reports whether the place that joined last blocks one of that kind, and still
// stands, if these are the line's data and Stat. If nothing in the line has changed since
// that join, the Stat says so.
func (l *line) tailStands(ctx context.Context, s *session, k kind, data []byte, stat *zk.Stat) (bool, error) {
	m, ok := l.tail(data, nextNumber(stat)-1)
	switch {
	case !ok || !l.mayName(k, m):
		return false, nil
	case stat.Mzxid == stat.Pzxid:
		return true, nil
	case int(stat.NumChildren) <= l.c.longLine:
		return false, nil
	}
	_, err := s.Exists(ctx, l.abs()+"/"+m.name)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// list returns the places in the line, in no order.
func (l *line) list(ctx context.Context, s *session) ([]placeName, error) {
	_, ms, _, err := l.look(ctx, s)
	return ms, err
}

// look returns the line's children, the places among them, and the line's Stat.
func (l *line) look(ctx context.Context, s *session) (children []string, ms []placeName, stat *zk.Stat, err error) {
	children, stat, err = s.Children(ctx, l.abs())
	if err != nil {
		return nil, nil, nil, err
	}
	ms = placeNames(children, l.kinds)
	for _, m := range ms {
		if m.kind == kindLatch || l.foreign(m.kind) {
			return nil, nil, nil, zkconn.Errorf(zkconn.ErrPathInUse, "%s stands in a line of a %s: another recipe uses this path", m.name, l.recipe)
		}
	}
	if err := l.checkChildren(ctx, s, children); err != nil {
		return nil, nil, nil, err
	}
	s.sweep(l, ms)
	l.noteChildren(len(children), len(ms))
	return children, ms, stat, nil
}

// join takes a place by one transaction. It writes the line's data too, because the
// Stat that this returns tells whether the place is alone and what its czxid is. If
// ctx ends before it is known whether a place was taken, the background finds out and
// deletes it.
func (l *line) join(ctx context.Context, s *session, k kind) (*place, error) {
	// The background work that this starts must be counted before Close waits for it.
	l.c.tasks.Add()
	defer l.c.tasks.Finish()
	if err := l.checkRoom(s, k); err != nil {
		return nil, err
	}
	for tries := 0; tries < zkconn.MaxTries; {
		state, err := l.ensure(ctx, s)
		if err == nil && state.guest && l.writes {
			l.forget() // somebody may fix it at any time
			err = zkconn.Errorf(zkconn.ErrPathInUse, "%s holds other data, or may not be written", l.abs())
		}
		if err != nil {
			return nil, err
		}
		// Each attempt has a name of its own, so that an attempt whose outcome is
		// unknown is never taken for another.
		e := l.entry(s, k, state)
		t, err := l.begin(ctx, s, e)
		if err != nil {
			return nil, err
		}
		p, o := l.joinOutcome(ctx, s, t, e)
		if p != nil {
			return p, nil
		}
		if !o.Unsent() {
			if err := l.notJoined(ctx, s, e, o); err != nil {
				return nil, err
			}
			tries++
		}
	}
	return nil, zkconn.ErrContended
}

// notJoined returns nil if a join that was refused can be tried again, and otherwise why not.
func (l *line) notJoined(ctx context.Context, s *session, e *entry, o zkconn.Outcome) error {
	if o.RefusedAt(e.mark, zk.ErrNoAuth) {
		if opened, err := l.openUp(ctx, s, e.state.lineACL); opened || err != nil {
			return err
		}
	}
	switch {
	case l.refused(e, o):
		return nil
	case o.SessionOver():
		return errJoinLost
	}
	return o.Err()
}

// errJoinLost: the session ended before the reply came, so there may have been a
// place.
var errJoinLost = fmt.Errorf("the reply to a join was lost: %w", zkconn.ErrSessionOver)

// entry is what takes a place, as a transaction or as the last part of one.
type entry struct {
	uuid   string
	create *zk.CreateRequest  // the place
	mark   *zk.SetDataRequest // the line; nil where its data are left alone
	kind   kind
	state  lineState
	owned  bool            // nobody but this library may write the place
	before *zkconn.Reading // of the line's data right before; nil: not read

	both [2]any // create and mark, see ops
}

func (l *line) entry(s *session, k kind, state lineState) *entry {
	acl, owned := state.list(s)
	e := &entry{uuid: newUUID(owned), kind: k, state: state, owned: owned}
	if l.mark != nil {
		e.uuid = l.mark(s, e.uuid)
	}
	name := "_c_" + e.uuid + "-" + string(k)
	e.create = &zk.CreateRequest{
		Path:  l.abs() + "/" + name,
		Data:  []byte(l.c.identity),
		Acl:   acl,
		Flags: zk.FlagEphemeral | zk.FlagSequence,
	}
	e.both[0] = e.create
	if !state.guest {
		e.mark = &zk.SetDataRequest{Path: l.abs(), Data: l.record(state.seal, name), Version: state.version}
		e.both[1] = e.mark
	}
	return e
}

// ops returns the operations, none for a nil entry.
func (e *entry) ops() []any {
	switch {
	case e == nil:
		return nil
	case e.mark == nil:
		return e.both[:1]
	}
	return e.both[:]
}

// readBefore reads the line's data ahead of an entry that is about to be sent as a part of
// another transaction, if the line was long recently.
func (l *line) readBefore(s *session, e *entry) {
	if e != nil && l.tellsPredecessor(e.state, e.kind) {
		e.before, _ = s.StartGet(e.mark.Path)
	}
}

// begin sends an entry. If the line was long recently, its data are read as well.
func (l *line) begin(ctx context.Context, s *session, e *entry) (t *zkconn.Transaction, err error) {
	if !l.tellsPredecessor(e.state, e.kind) {
		return s.Begin(ctx, e.ops()...)
	}
	e.before, t, err = s.BeginBehindGet(ctx, e.mark.Path, e.ops()...)
	return t, err
}

// refused reports whether an entry was refused because the line is not what it was known to
// be. The next entry may succeed.
func (l *line) refused(e *entry, o zkconn.Outcome) bool {
	switch {
	case o.RefusedAt(e.mark, zk.ErrNoAuth) && !l.writes:
		l.remember(lineState{guest: true, lineACL: e.state.lineACL})
	case o.Is(zk.ErrNoNode), o.RefusedAt(e.mark, zk.ErrBadVersion):
		l.forget()
	default:
		return false
	}
	return true
}

// entered makes the place of an entry that was carried out. The line's Stat tells
// whether the place is alone.
func (l *line) entered(ctx context.Context, s *session, e *entry, o zkconn.Outcome) (*place, error) {
	p, err := l.newPlace(ctx, s, e, l.nameIn(o.Created(e.create)))
	if err != nil || e.mark == nil {
		return p, err
	}
	stat := o.Stat(e.mark) // of the transaction that created the place
	p.bears = l.noteMarked(s, e.state, stat)
	p.czxid, p.lineCzxid, p.lineCount = stat.Mzxid, stat.Czxid, int(stat.NumChildren)
	p.first = p.lineCount == 1
	l.noteCount(p.lineCount)
	if e.before != nil && !p.first {
		select {
		case <-e.before.Done():
			if data, stat, err := e.before.Data(); err == nil {
				p.guessed, p.ahead = p.guess(data, stat), max(1, p.lineCount-1-e.state.others)
			}
		default: // cannot happen: replies arrive in order
		}
	}
	return p, nil
}

// nameIn returns the name of a znode in the line.
func (l *line) nameIn(path string) string { return path[len(l.abs())+1:] }

// newPlace makes a place of a znode's name. A place beyond the limit is given up.
func (l *line) newPlace(ctx context.Context, s *session, e *entry, name string) (*place, error) {
	m, ok := parsePlaceName(name, l.kinds)
	p := &place{placeName: m, line: l, s: s, bears: e.state.lineACL, path: l.abs() + "/" + name, lineCount: -1}
	if ok && !l.c.isBeyondLimit(m.number) {
		return p, nil
	}
	err := p.giveUp(ctx)
	if !ok { // no server creates such a name
		err = fmt.Errorf("a place was created with the invalid name %q", name)
	}
	return nil, err
}

// grant makes a grant of a place whose turn it is. The clock must be looked at first:
// a process that slept sees the event although its session is gone. A clock that jumped
// costs a read.
func (p *place) grant(ctx context.Context) (*grant, error) {
	if p.czxid == 0 {
		own, err := p.s.Watch(ctx, p.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, p.whyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
		p.own, p.czxid = own, own.Stat.Czxid
	}
	for {
		if p.s.isValid() {
			g, err := newGrant(p)
			if !errors.Is(err, errMoved) {
				return g, err
			}
			if err := p.s.Sync(ctx, p.path); err != nil {
				return nil, err
			}
			p.turnConn = 0 // the reply has advanced the zxid
			continue
		}
		_, _, err := p.s.Get(ctx, p.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, p.whyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}
