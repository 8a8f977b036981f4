package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// line is a container znode in which places stand in order. The recipe says which
// places block which. Everything else is the same for all recipes.
type line struct {
	c      *client
	path   string // as the user gave it
	recipe string // for the marker
	// alike is another recipe that may use the path before and after this one; empty: none. See
	// foreign for places of both in one line.
	alike string
	kinds []kind // of its places; other children are not places
	// blocks reports whether a place of kind own has to wait for one of kind other
	// that is ahead of it. It waits for the nearest of those. nil: no place waits for one.
	blocks func(own, other kind) bool
	// foreign reports whether a kind must not stand in this line, because its recipe
	// takes turns by other rules.
	foreign func(kind) bool
	// extra is the name of a child that is no place and belongs to the recipe; empty: none.
	extra string
	// rejoins: if somebody deletes the whole line, its waiters join again.
	rejoins bool
	// writes: each join must change the version of the line's data, see Semaphore. So the
	// znode must not be a guest's.
	writes bool
	// mark returns the uuid of a new place with what its name is to tell the others; nil: nothing.
	mark func(s *session, uuid string) string
}

// The rules of the recipes: a line's blocks, and its foreign.

// everyoneBlocks is the rule where only the first may act, as in the line of a Mutex:
// each place waits for the one ahead of it.
func everyoneBlocks(_, _ kind) bool { return true }

// writersBlock is the rule of an RWLock: readers share; a writer blocks, and is
// blocked by, everybody. It is enough to wait for the nearest: if that is a writer,
// the readers ahead of it have gone before it holds.
func writersBlock(own, other kind) bool { return own.exclusive() || other.exclusive() }

// isRWLockKind reports whether k is a kind of an RWLock's places. They are foreign
// where everyone blocks. kazoo's kinds are foreign nowhere: its mutex and its writer
// have the same one.
func isRWLockKind(k kind) bool { return k == kindRead || k == kindWrite }

// isMutexKind reports whether k is the kind of a Mutex's places, which are foreign in
// the line of an RWLock.
func isMutexKind(k kind) bool { return k == kindLock }

func (l *line) key() holderKey { return holderKey{l.c, l.path, l.recipe} }

func (l *line) abs() string { return l.c.abs(l.path) }

// The marker is the data of a line. Each join writes it: the Stat in the reply says
// in the same round trip whether the new place is alone.
//
//	zkrecipes/1 mutex acl=8c6976e5b5410415 _c_9240e114-11f0-8813-9264-6b34a5d90aed-lock-
const (
	markerLibrary = "zkrecipes/"
	markerLayout  = markerLibrary + "1 "
	queueMarker   = markerLayout + "queue" // of a queue's log, too
)

// record is the marker with the name of the place whose join writes it, up to the
// number. So the next to join knows its predecessor's name, see place.guess.
func (l *line) record(seal, name string) []byte {
	b := append([]byte(markerLayout), l.recipe...)
	if seal != "" {
		b = append(append(b, ' '), seal...)
	}
	if name != "" {
		b = append(append(b, ' '), name...)
	}
	return b
}

// mark is what a marker says.
type mark struct {
	recipe string
	seal   string // see sealOf; empty: none
	name   string // see line.record; empty: none
}

// parseMark returns what the data of a line say. false: they are no marker.
func (l *line) parseMark(data []byte) (m mark, ok bool) {
	all, ok := strings.CutPrefix(string(data), markerLayout)
	if !ok {
		return mark{}, false
	}
	m.recipe = l.recipe // whose name may have a space in it
	rest, ours := strings.CutPrefix(all+" ", m.recipe+" ")
	if !ours {
		m.recipe, rest, _ = strings.Cut(all, " ")
	}
	rest = strings.TrimSuffix(rest, " ")
	if strings.HasPrefix(rest, sealPrefix) {
		m.seal, rest, _ = strings.Cut(rest, " ")
	}
	m.name = rest
	return m, true
}

// recorded returns the name in a line's data.
func (l *line) recorded(data []byte) (name string, ok bool) {
	m, ok := l.parseMark(data)
	return m.name, ok && m.recipe == l.recipe && m.name != ""
}

// accepts reports whether a line that was marked by that recipe can be used by this one.
func (l *line) accepts(recipe string) bool {
	return recipe == l.recipe || l.alike != "" && recipe == l.alike
}

// checkData returns ErrPathInUse if the data of the znode say that another recipe uses the
// path, or a version of this library with another layout. Any other data are somebody's
// own, or a marker that this recipe accepts.
func (l *line) checkData(data []byte) error {
	m, ours := l.parseMark(data)
	switch {
	case ours:
		if !l.accepts(m.recipe) {
			return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by another recipe: %.40q", data)
		}
	case !isKnownLayout(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a version with another layout: %.40q", data)
	case isSize(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path holds the size of a semaphore or barrier: %.40q", data)
	}
	return nil
}

// checkChildren returns ErrPathInUse if the line is the path of a queue, whose znode has no
// data. Below a queue's path stands its log, which stays, so a place that joins there is not
// alone, and the children are listed. It costs a read if there is a child of that name.
func (l *line) checkChildren(ctx context.Context, s *session, children []string) error {
	if !slices.Contains(children, queuelog.RootName[1:]) {
		return nil
	}
	data, _, err := s.Get(ctx, l.abs()+queuelog.RootName)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil
	case err == nil && bytes.HasPrefix(data, []byte(queueMarker)):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a queue")
	}
	return err
}

// checkNoQueue is checkChildren for a znode without data whose children are not known. It
// costs one read.
func (l *line) checkNoQueue(ctx context.Context, s *session) error {
	return l.checkChildren(ctx, s, []string{queuelog.RootName[1:]})
}

// checkQueuePath returns ErrPathInUse if the data of the znode at a queue's path say that
// another recipe uses it.
func checkQueuePath(data []byte) error {
	if bytes.HasPrefix(data, []byte(markerLibrary)) || isSize(data) {
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by another recipe: %.40q", data)
	}
	return nil
}

// isKnownLayout reports whether data do not belong to this library, or have a layout
// that this version knows.
func isKnownLayout(data []byte) bool {
	return !bytes.HasPrefix(data, []byte(markerLibrary)) || bytes.HasPrefix(data, []byte(markerLayout))
}

// lineState is what a client knows of a line.
type lineState struct {
	recipe string // that has read the line
	// guest: the znode holds the data of somebody else, or must not be written. It
	// is used as a line, and its data are left alone.
	guest bool
	// version is the version over which the next marker is written: -1 if a marker
	// is there, else the version of the empty data that were read.
	version int32
	lineACL
	count  int  // of its children, when the client last looked; 0: not known
	others int  // children that are no places, when it last listed them
	tail   kind // of the place that had joined last, then; empty: not known
	// brief: guessing failed recently, because the predecessor had left or is another
	// library's. A listing that shows a predecessor of this library ends that.
	brief bool
	used  time.Time // by a join, or to prepare one
}

// tellsPredecessor reports whether the line's data probably tell a place of that kind its
// predecessor. In a short line the predecessor has often left when it is watched. A
// reader's is not the reader at the tail.
func (l *line) tellsPredecessor(s lineState, k kind) bool {
	return l.blocks != nil && s.count-s.others > l.c.longLine && !s.brief && !s.guest && s.version == -1 && (k.exclusive() || l.blocks(k, s.tail))
}

// mayBeLong reports whether the line is long, or is not known. A guest's data are not read:
// they name no place.
func (l *line) mayBeLong() bool {
	state, ok, _ := l.known()
	return !l.writes && (!ok || !state.guest && state.count-state.others > l.c.longLine)
}

// longLine is how many places a line has at most that is not long.
const longLine = 4

// idleLine is for how long the client relies on what it knows of a line that it does
// not use. The servers delete idle containers, by default once a minute, and then
// somebody else may use the path. Then the client deletes the line itself, see Client.tidy.
const idleLine = 30 * time.Second

// ensure returns what the client knows of the line. On the client's first use, and
// when it has not used the line for idleLine, it reads the line, and creates it if it
// does not exist. Then, and only then, the data tell that another recipe uses the path.
func (l *line) ensure(ctx context.Context, s *session) (lineState, error) {
	known, _, fresh := l.known()
	if fresh {
		return known, nil
	}
	for range zkconn.MaxTries {
		var state lineState
		data, stat, err := s.Get(ctx, l.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			state, err = l.create(ctx, s)
			if errors.Is(err, zk.ErrNodeExists) {
				continue
			}
			return state, err
		case err != nil:
			return lineState{}, err
		case stat.EphemeralOwner != 0:
			return lineState{}, zk.ErrNoChildrenForEphemerals
		case len(data) == 0:
			state, err = l.readUnmarked(ctx, s, stat)
		default:
			state, err = l.readMarked(ctx, s, known, data, stat)
		}
		if !errors.Is(err, zk.ErrNoNode) { // else it has been deleted since
			return state, err
		}
	}
	return lineState{}, zkconn.ErrContended
}

// create creates the line. zk.ErrNodeExists: somebody else was quicker.
func (l *line) create(ctx context.Context, s *session) (lineState, error) {
	seal := sealOf(s.ACL(), 0)
	if err := s.CreateContainer(ctx, l.abs(), l.record(seal, "")); err != nil {
		return lineState{}, err
	}
	return l.remember(lineState{version: -1, lineACL: lineACL{seal: seal}}), nil
}

// readUnmarked returns what is known of a line whose znode has that Stat, and no data. It is
// remembered once a join has written the marker. zk.ErrNoNode: the line is gone.
func (l *line) readUnmarked(ctx context.Context, s *session, stat *zk.Stat) (lineState, error) {
	if stat.NumChildren > 0 { // before the first join writes the marker of another recipe
		if err := l.checkNoQueue(ctx, s); err != nil {
			return lineState{}, err
		}
	}
	acl, err := readACL(ctx, s, l.abs(), stat)
	return lineState{version: stat.Version, lineACL: acl}, err
}

// readMarked returns what is known of a line whose znode has these data and that Stat: a
// marker, or somebody else's data. before is what was known of it. zk.ErrNoNode: the line is
// gone.
func (l *line) readMarked(ctx context.Context, s *session, before lineState, data []byte, stat *zk.Stat) (lineState, error) {
	// A guest's data are its own: what it holds now says nothing of the recipe.
	if err := l.checkData(data); err != nil && !(before.guest && isSize(data)) {
		return lineState{}, err
	}
	state := lineState{guest: true}
	isSealed := false
	if m, ours := l.parseMark(data); ours {
		tail, _ := parsePlaceName(m.name+"0000000000", l.kinds)
		state = lineState{version: -1, count: int(stat.NumChildren), others: before.others, tail: tail.kind}
		state.lineACL, isSealed = sealed(s, m.seal, stat)
	}
	if isSealed {
		l.c.containers.written(l.abs(), stat)
		return l.remember(state), nil
	}
	var err error
	if state.lineACL, err = readACL(ctx, s, l.abs(), stat); err != nil {
		return lineState{}, err
	}
	return l.remember(state), nil
}

// noteMarked updates what is known of a line after a join that wrote its data over that state.
// The Stat is the line's, from the reply. It returns what is known now of the line's ACL.
func (l *line) noteMarked(s *session, state lineState, stat *zk.Stat) lineACL {
	bears := state.lineACL
	switch {
	case bears.czxid != 0 && bears.czxid != stat.Czxid, bears.aversion != stat.Aversion:
		l.forget() // others have made it anew, or changed its list
		return lineACL{acl: bears.acl}
	case bears.czxid == 0 && bears.seal != "": // this client has created it
		bears, _ = sealed(s, bears.seal, stat)
		l.remember(lineState{version: -1, lineACL: bears})
	case state.version != -1:
		l.remember(lineState{version: -1, lineACL: bears})
	}
	l.noteWritten(bears, stat)
	return bears
}

// noteWritten notes that this client has written the data of a line with that ACL, whose Stat
// the reply returned.
func (l *line) noteWritten(bears lineACL, stat *zk.Stat) {
	if bears.seal != "" {
		l.c.containers.written(l.abs(), stat)
	} else {
		l.c.containers.rewritten(l.abs(), stat)
	}
}

// known returns what is known of the line. If it is fresh, it can be relied on, and the line
// counts as used.
func (l *line) known() (state lineState, ok, fresh bool) {
	t := l.c.containers
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[l.abs()]
	if e == nil || e.line == nil {
		return lineState{}, false, false
	}
	if fresh = l.accepts(e.line.recipe) && time.Since(e.line.used) < idleLine; fresh {
		e.line.used = time.Now()
		t.use(e)
	}
	return *e.line, true, fresh
}

func (l *line) remember(state lineState) lineState {
	t := l.c.containers
	t.mu.Lock()
	defer t.mu.Unlock()
	state.recipe, state.used = l.recipe, time.Now()
	e := t.get(l.abs())
	e.line = &state
	if state.guest {
		e.czxid = 0
	}
	t.use(e)
	return state
}

// note changes what is known of the line, if anything is.
func (l *line) note(change func(*lineState)) {
	t := l.c.containers
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.all[l.abs()]; e != nil && e.line != nil {
		change(e.line)
	}
}

// noteCount remembers how many children the line has.
func (l *line) noteCount(n int) { l.note(func(s *lineState) { s.count = n }) }

// noteChildren is noteCount for a client that has listed the children: it can tell how many
// of them are places.
func (l *line) noteChildren(n, places int) {
	l.note(func(s *lineState) { s.count, s.others = n, n-places })
}

// noteBrief remembers whether a guess is likely to fail.
func (l *line) noteBrief(brief bool) { l.note(func(s *lineState) { s.brief = brief }) }

// noteTail remembers the kind of a place that joined right before one of this client.
func (l *line) noteTail(k kind) { l.note(func(s *lineState) { s.tail = k }) }

// forget is for a line that has gone, or is not what it was known to be.
func (l *line) forget() {
	t := l.c.containers
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[l.abs()]
	switch {
	case e == nil:
	case e.below == 0:
		t.remove(e)
	default:
		e.line, e.czxid = nil, 0
		t.use(e)
	}
}
