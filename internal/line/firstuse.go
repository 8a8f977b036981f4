package line

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A client that uses a line for the first time, or has not for a while, reads it, or creates it.

// readOrCreate reads the line, of which that was known, and creates it if it does not exist.
func (l *Line) readOrCreate(ctx context.Context, s *session.Session, known LineState) (LineState, error) {
	for range zkconn.MaxTries {
		var state LineState
		data, stat, err := s.Get(ctx, l.Abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			state, err = l.create(ctx, s)
			if errors.Is(err, zk.ErrNodeExists) {
				continue
			}
			return state, err
		case err != nil:
			return LineState{}, err
		case stat.EphemeralOwner != 0:
			return LineState{}, zk.ErrNoChildrenForEphemerals
		case len(data) == 0: // made by another library, or as the parent of a znode
			state, err = l.readUnmarked(ctx, s, stat)
		default:
			state, err = l.readMarked(ctx, s, known, data, stat)
		}
		if !errors.Is(err, zk.ErrNoNode) { // else it has been deleted since
			return state, err
		}
	}
	return LineState{}, zkconn.ErrContended
}

// create creates the line. zk.ErrNodeExists: somebody else was quicker.
func (l *Line) create(ctx context.Context, s *session.Session) (LineState, error) {
	fingerprint := fingerprintOf(s.ACL(), 0)
	if err := s.CreateContainer(ctx, l.Abs(), layout.Record(l.Recipe, fingerprint, "")); err != nil {
		return LineState{}, err
	}
	return l.remember(LineState{Version: -1, ACL: ACL{Fingerprint: fingerprint}}), nil
}

// readUnmarked returns what is known of a line whose znode has that Stat, and no data. It is
// remembered once a join has written the marker. zk.ErrNoNode: the line is gone.
func (l *Line) readUnmarked(ctx context.Context, s *session.Session, stat *zk.Stat) (LineState, error) {
	if stat.NumChildren > 0 { // before the first join writes the marker of another recipe
		if err := layout.CheckUnmarked(ctx, s.Session, l.Abs()); err != nil {
			return LineState{}, err
		}
	}
	acl, err := ACL{}.Read(ctx, s.Session, l.Abs(), stat)
	return LineState{Version: stat.Version, ACL: acl}, err
}

// readMarked returns what is known of a line whose znode has that Stat and these data, which
// must be a marker. before is what was known of it. zk.ErrNoNode: the line is gone.
func (l *Line) readMarked(ctx context.Context, s *session.Session, before LineState, data []byte, stat *zk.Stat) (LineState, error) {
	if err := l.CheckData(data); err != nil {
		return LineState{}, err
	}
	m, ours := layout.ParseMark(l.Recipe, data)
	if !ours {
		return LineState{}, zkconn.Errorf(zkconn.ErrPathInUse, "%s holds other data: %.40q", l.Abs(), data) // I7
	}
	tail, _ := layout.ParsePlace(m.Name+"0000000000", l.Kinds)
	state := LineState{Version: -1, crowd: crowd{children: int(stat.NumChildren), others: before.crowd.others, tail: tail.Kind}}
	var isOurs bool
	if state.ACL, isOurs = ourACL(s.Session, m.Fingerprint, stat); isOurs {
		l.NoteWritten(state.ACL, stat)
		return l.remember(state), nil
	}
	var err error
	if state.ACL, err = state.ACL.Read(ctx, s.Session, l.Abs(), stat); err != nil { // it is the zero ACL
		return LineState{}, err
	}
	return l.remember(state), nil
}
