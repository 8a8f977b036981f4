package line

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/lineacl"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Line is a container znode in which places stand in order. The recipe says which
// places block which. Everything else is the same for all recipes.
type Line struct {
	session.At
	// Alike is a second recipe whose marker this line accepts (Mutex and RWLock), or empty. See
	// Foreign for places of both in one line.
	Alike string
	Kinds []placename.Kind // of its places; other children are not places
	// Blocks reports whether a place of kind own has to wait for one of kind other
	// that is ahead of it. It waits for the nearest of those. nil: no place waits for one.
	Blocks func(own, other placename.Kind) bool
	// Foreign reports whether a kind must not stand in this line, because its recipe
	// takes turns by other rules.
	Foreign func(placename.Kind) bool
	// Extra is the name of a child that is no place and belongs to the recipe; empty: none.
	Extra string
	// Rejoins: if somebody deletes the whole line, its waiters join again.
	Rejoins bool
	// Writes says that each join must change the version of the line's data, see Semaphore.
	Writes bool
	// Delay is for how long nothing is granted if the last holder went without a release, see
	// hold.
	Delay time.Duration
	// Mark returns the uuid of a new place with what its name is to tell the others; nil: nothing.
	Mark func(s *session.Session, uuid string) string
}

// The rules of the recipes: a line's blocks, and its foreign.

// EveryoneBlocks is the rule where only the first may act, as in the line of a Mutex:
// each place waits for the one ahead of it.
func EveryoneBlocks(_, _ placename.Kind) bool { return true }

// WritersBlock is the rule of an RWLock: readers share; a writer blocks, and is
// blocked by, everybody. It is enough to wait for the nearest: if that is a writer,
// the readers ahead of it have gone before it holds.
func WritersBlock(own, other placename.Kind) bool { return own.Exclusive() || other.Exclusive() }

// recorded returns the name in a line's data.
func (l *Line) recorded(data []byte) (name string, ok bool) {
	m, ok := layout.ParseMark(l.Recipe, data)
	return m.Name, ok && m.Recipe == l.Recipe && m.Name != ""
}

// accepts reports whether a line that was marked by that recipe can be used by this one.
func (l *Line) accepts(recipe string) bool {
	return recipe == l.Recipe || l.Alike != "" && recipe == l.Alike
}

// CheckData returns ErrPathInUse if the data of the znode say that another recipe uses the
// path, or a version of this library with another layout. Any other data are somebody's
// own, or a marker that this recipe accepts.
func (l *Line) CheckData(data []byte) error {
	m, ours := layout.ParseMark(l.Recipe, data)
	switch {
	case ours:
		if !l.accepts(m.Recipe) {
			return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by another recipe: %.40q", data)
		}
	case !layout.IsKnownLayout(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a version with another layout: %.40q", data)
	case layout.IsSize(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path holds the size of a semaphore or barrier: %.40q", data)
	}
	return nil
}

// LineState is what a client knows of a line.
type LineState struct {
	recipe string
	// Version is the version over which the next marker is written: -1 if a marker
	// is there, else the version of the empty data that were read.
	Version int32
	lineacl.ACL
	crowd crowd
	used  time.Time
}

// IdleLine is for how long the client relies on what it knows of a line that it does
// not use. The servers delete idle containers, by default once a minute, and then
// somebody else may use the path. Then the client deletes the line itself, see containers.tidy.
const IdleLine = 30 * time.Second

// Ensure returns what the client knows of the line. On the client's first use, and
// when it has not used the line for IdleLine, it reads the line, and creates it if it
// does not exist. Then, and only then, the data tell that another recipe uses the path.
func (l *Line) Ensure(ctx context.Context, s *session.Session) (LineState, error) {
	known, _, fresh := l.Known()
	if fresh {
		return known, nil
	}
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
	seal := lineacl.SealOf(s.ACL(), 0)
	if err := s.CreateContainer(ctx, l.Abs(), layout.Record(l.Recipe, seal, "")); err != nil {
		return LineState{}, err
	}
	return l.remember(LineState{Version: -1, ACL: lineacl.ACL{Seal: seal}}), nil
}

// readUnmarked returns what is known of a line whose znode has that Stat, and no data. It is
// remembered once a join has written the marker. zk.ErrNoNode: the line is gone.
func (l *Line) readUnmarked(ctx context.Context, s *session.Session, stat *zk.Stat) (LineState, error) {
	if stat.NumChildren > 0 { // before the first join writes the marker of another recipe
		if err := layout.CheckUnmarked(ctx, s.Session, l.Abs()); err != nil {
			return LineState{}, err
		}
	}
	acl, err := lineacl.Read(ctx, s.Session, l.Abs(), stat)
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
		return LineState{}, zkconn.Errorf(zkconn.ErrPathInUse, "%s holds other data: %.40q", l.Abs(), data)
	}
	tail, _ := placename.Parse(m.Name+"0000000000", l.Kinds)
	state := LineState{Version: -1, crowd: crowd{children: int(stat.NumChildren), others: before.crowd.others, tail: tail.Kind}}
	var isSealed bool
	if state.ACL, isSealed = lineacl.Sealed(s.Session, m.Seal, stat); isSealed {
		l.NoteWritten(state.ACL, stat)
		return l.remember(state), nil
	}
	var err error
	if state.ACL, err = lineacl.Read(ctx, s.Session, l.Abs(), stat); err != nil {
		return LineState{}, err
	}
	return l.remember(state), nil
}

// noteMarked updates what is known of a line after a join that wrote its data over that state.
// The Stat is the line's, from the reply. It returns what is known now of the line's ACL.
func (l *Line) noteMarked(s *session.Session, state LineState, stat *zk.Stat) lineacl.ACL {
	bears := state.ACL
	switch {
	case bears.Czxid != 0 && bears.Czxid != stat.Czxid, bears.Aversion != stat.Aversion:
		l.Forget() // others have made it anew, or changed its list
		return lineacl.ACL{List: bears.List}
	case bears.Czxid == 0 && bears.Seal != "": // this client has created it
		bears, _ = lineacl.Sealed(s.Session, bears.Seal, stat)
		l.remember(LineState{Version: -1, ACL: bears})
	case state.Version != -1:
		l.remember(LineState{Version: -1, ACL: bears})
	}
	l.NoteWritten(bears, stat)
	return bears
}

// NoteWritten notes that this client has written the data of a line with that ACL, whose Stat
// the reply returned.
func (l *Line) NoteWritten(bears lineacl.ACL, stat *zk.Stat) {
	if bears.Seal != "" {
		l.containers().written(l.Abs(), stat)
	} else {
		l.containers().rewritten(l.Abs(), stat)
	}
}

// Known returns what is known of the line. If it is fresh, it can be relied on, and the line
// counts as used.
func (l *Line) Known() (state LineState, ok, fresh bool) {
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[l.Abs()]
	if e == nil || e.line == nil {
		return LineState{}, false, false
	}
	if fresh = l.accepts(e.line.recipe) && time.Since(e.line.used) < IdleLine; fresh {
		e.line.used = time.Now()
		t.use(e)
	}
	return *e.line, true, fresh
}

func (l *Line) remember(state LineState) LineState {
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	state.recipe, state.used = l.Recipe, time.Now()
	e := t.get(l.Abs())
	e.line = &state
	t.use(e)
	return state
}

// note changes what is known of the line, if anything is.
func (l *Line) note(change func(*LineState)) {
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.all[l.Abs()]; e != nil && e.line != nil {
		change(e.line)
	}
}

// Forget is for a line that has gone, or is not what it was known to be.
func (l *Line) Forget() {
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l.Abs())
}
