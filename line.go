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
	c      *Client
	path   string // as the user gave it
	recipe string // for the marker
	kinds  []kind // of its places; other children are not places
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
const (
	markerLibrary = "zkrecipes/"
	markerLayout  = markerLibrary + "1 "
	queueMarker   = markerLayout + "queue" // of a queue's log, too
)

func (l *line) marker() []byte { return []byte(markerLayout + l.recipe) }

// record is the marker with the name of the place whose join writes it, up to the
// number. So whoever joins next knows its predecessor's name, see place.guess.
func (l *line) record(name string) []byte {
	return []byte(markerLayout + l.recipe + " " + name)
}

// recorded returns the name in a line's data.
func (l *line) recorded(data []byte) (name string, ok bool) {
	return strings.CutPrefix(string(data), string(l.marker())+" ")
}

// marks reports whether data are the marker of this recipe's lines.
func (l *line) marks(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, l.marker())
	return ok && (len(rest) == 0 || rest[0] == ' ')
}

// accepts reports whether a line that was marked by that recipe can be used by this one. A
// Mutex and an RWLock may use a path one after the other. If places of both stand in the
// line, foreign tells.
func (l *line) accepts(recipe string) bool {
	return recipe == l.recipe || recipe == recipeMutex && l.recipe == recipeRWLock || recipe == recipeRWLock && l.recipe == recipeMutex
}

const recipeMutex = "mutex"

// checkData returns ErrPathInUse if the data of the znode say that another recipe uses the
// path, or a version of this library with another layout. Any other data are somebody's
// own, or a marker that this recipe accepts.
func (l *line) checkData(data []byte) error {
	marked, ours := bytes.CutPrefix(data, []byte(markerLayout))
	switch {
	case ours:
		recipe, _, _ := strings.Cut(string(marked), " ")
		if !l.marks(data) && !l.accepts(recipe) {
			return zkconn.Errorf(ErrPathInUse, "this path is not of the recipe %q, but of another one: %.40q", l.recipe, data)
		}
	case !isKnownLayout(data):
		return zkconn.Errorf(ErrPathInUse, "line of a layout that this version does not know: %.40q", data)
	case isSize(data):
		return zkconn.Errorf(ErrPathInUse, "the znode holds data of its own, the size of a semaphore or barrier: %.40q", data)
	}
	return nil
}

// checkChildren returns ErrPathInUse if the line is the path of a queue, whose znode has no
// data. Below a queue's path stands its log, which stays, so whoever joins there is not
// alone, and lists the children. It costs a read if there is a child of that name.
func (l *line) checkChildren(ctx context.Context, s *session, children []string) error {
	if !slices.Contains(children, queuelog.RootName[1:]) {
		return nil
	}
	data, _, err := s.Get(ctx, l.abs()+queuelog.RootName)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil
	case err == nil && bytes.HasPrefix(data, []byte(queueMarker)):
		return zkconn.Errorf(ErrPathInUse, "this path is not of the recipe %q, but of a queue", l.recipe)
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
		return zkconn.Errorf(ErrPathInUse, "this path is not of a queue, but of another recipe: %.40q", data)
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
	count   int  // of its children, when the client last looked; 0: not known
	others  int  // children that are no places, when it last listed them
	tail    kind // of the place that had joined last, then; empty: not known
	// brief: there was no place that the last guess named, so places stand too briefly for
	// a guess, or they are another library's. A listing that shows the predecessor, of this
	// library, ends that.
	brief bool
	used  time.Time
}

// tellsPredecessor reports whether the line's data probably tell a place of that kind its
// predecessor. In a short line the predecessor has often left when it is watched. A
// reader's is not the reader at the tail.
func (l *line) tellsPredecessor(s lineState, k kind) bool {
	return l.blocks != nil && s.count-s.others > l.c.longLine && !s.brief && !s.guest && s.version == -1 && (k.exclusive() || l.blocks(k, s.tail))
}

// longLine is how many places a line has at most that is not long.
const longLine = 4

// idleLine is for how long the client relies on what it knows of a line that it does
// not use. The servers delete idle containers, by default once a minute, and then
// somebody else may use the path.
const idleLine = 30 * time.Second

// ensure returns what the client knows of the line. On the client's first use, and
// when it has not used the line for idleLine, it reads the line, and creates it if it
// does not exist. Then, and only then, the data tell that another recipe uses the path.
func (l *line) ensure(ctx context.Context, s *session) (lineState, error) {
	l.c.mu.Lock()
	state, ok := l.c.lines[l.path]
	if ok && l.accepts(state.recipe) && time.Since(state.used) < idleLine {
		state.used = time.Now()
		l.c.lines[l.path] = state
		l.c.mu.Unlock()
		return state, nil
	}
	l.c.mu.Unlock()
	for range zkconn.MaxTries {
		data, stat, err := s.Get(ctx, l.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err := s.CreateContainer(ctx, l.abs(), l.marker(), l.c.acl)
			if err == nil {
				return l.remember(lineState{version: -1}), nil
			}
			if errors.Is(err, zk.ErrNodeExists) {
				continue
			}
			return lineState{}, err
		case err != nil:
			return lineState{}, err
		case stat.EphemeralOwner != 0:
			return lineState{}, zk.ErrNoChildrenForEphemerals
		case len(data) == 0:
			if stat.NumChildren > 0 { // before the first join writes the marker of another recipe
				if err := l.checkNoQueue(ctx, s); err != nil {
					return lineState{}, err
				}
			}
			return lineState{version: stat.Version}, nil
		}
		// A guest's data are its own: what it holds now says nothing of the recipe.
		if err := l.checkData(data); err != nil && !(ok && state.guest && isSize(data)) {
			return lineState{}, err
		}
		switch {
		case bytes.HasPrefix(data, []byte(markerLayout)):
			name, _ := l.recorded(data)
			tail, _ := parsePlaceName(name+"0000000000", l.kinds)
			return l.remember(lineState{version: -1, count: int(stat.NumChildren), others: state.others, tail: tail.kind}), nil
		default:
			return l.remember(lineState{guest: true}), nil
		}
	}
	return lineState{}, zkconn.ErrContended
}

func (l *line) remember(state lineState) lineState {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	state.recipe, state.used = l.recipe, time.Now()
	if len(l.c.lines) >= maxKnownLines {
		for path := range l.c.lines { // any: it costs that line a read
			delete(l.c.lines, path)
			break
		}
	}
	l.c.lines[l.path] = state
	return state
}

// noteCount remembers how many children the line has, if anything is known of it.
func (l *line) noteCount(n int) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if state, ok := l.c.lines[l.path]; ok && state.count != n {
		state.count = n
		l.c.lines[l.path] = state
	}
}

// noteChildren is noteCount for a client that has listed the children: it can tell how many
// of them are places.
func (l *line) noteChildren(n, places int) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if state, ok := l.c.lines[l.path]; ok {
		state.count, state.others = n, n-places
		l.c.lines[l.path] = state
	}
}

// noteBrief remembers whether a guess is likely to fail.
func (l *line) noteBrief(brief bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if state, ok := l.c.lines[l.path]; ok && state.brief != brief {
		state.brief = brief
		l.c.lines[l.path] = state
	}
}

// noteTail remembers the kind of a place that joined right before one of this client.
func (l *line) noteTail(k kind) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if state, ok := l.c.lines[l.path]; ok && state.tail != k {
		state.tail = k
		l.c.lines[l.path] = state
	}
}

func (l *line) forget() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	delete(l.c.lines, l.path)
}
