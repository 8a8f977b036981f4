package line

import (
	"container/list"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The containers that a Client knows: lines that it has used, and what it has created. The
// servers delete idle containers slowly, so the Client deletes its own, see containers.tidy.

const (
	// maxRecent is how many containers may wait to be deleted. If there are more, those
	// that were not used for longest are deleted earlier.
	maxRecent = 30_000
	// MaxContainers bounds what is remembered.
	maxContainers = 40_000
)

// container is what a Client knows of one.
type container struct {
	path string
	// line is what is known of it as a line, nil if nothing is.
	line *LineState

	// czxid is that of the znode, if this library has created it and nobody else has
	// changed it since, as far as is known. 0: it must not be deleted.
	czxid int64
	// version is that of the data when this client wrote or read them last.
	version int32

	used time.Time
	// parent is the container in which it counts, nil if this client has created none.
	parent *container
	// below counts the containers that count in it.
	below int

	in *list.List // nil: tidy has it
	at *list.Element
}

// containers are ordered by their use, because those that were not used for longest are the
// first to go.
type containers struct {
	idle     time.Duration
	client   *session.Client
	usedWith func(path string) (other string, ok bool)
	begin    func()

	mu  sync.Mutex // behind all other mutexes
	all map[string]*container
	// recent are those that may be deleted when they have been idle, rest all others.
	recent  *list.List
	rest    *list.List
	timer   *time.Timer
	armed   bool
	tidying bool
	stopped bool
}

func newContainers(idle time.Duration) *containers {
	return &containers{idle: idle, all: map[string]*container{}, recent: list.New(), rest: list.New()}
}

// get returns the container with that path, which is used now. t.mu must be held.
func (t *containers) get(path string) *container {
	e := t.all[path]
	if e == nil {
		e = &container{path: path}
		t.makeRoom()
		t.all[path] = e
		t.link(e)
	}
	return e
}

// makeRoom forgets containers. Those that might be deleted are left to the servers.
func (t *containers) makeRoom() {
	for len(t.all) >= maxContainers {
		oldest := t.rest.Front()
		if oldest == nil {
			oldest = t.recent.Front()
		}
		if oldest == nil {
			return
		}
		t.remove(oldest.Value.(*container))
	}
}

// link makes e count in its parent, if this client has created that.
func (t *containers) link(e *container) {
	parent := t.all[zkconn.Parent(e.path)]
	if e.parent == nil && parent != nil && parent.czxid != 0 {
		e.parent = parent
		parent.below++
	}
}

// remove forgets e, and returns its parent if nothing counts there any more.
func (t *containers) remove(e *container) (parent *container) {
	if t.all[e.path] == e {
		delete(t.all, e.path)
	}
	if e.in != nil {
		e.in.Remove(e.at)
		e.in = nil
	}
	if parent = e.parent; parent == nil {
		return nil
	}
	e.parent = nil
	if parent.below--; parent.below > 0 {
		return nil
	}
	return parent
}

// use notes that e is used now. t.mu must be held.
func (t *containers) use(e *container) {
	e.used = time.Now()
	if e.in != nil || e.at == nil { // else tidy puts it back
		t.put(e)
	}
}

// put puts e behind all others. t.mu must be held.
func (t *containers) put(e *container) {
	if e.czxid == 0 {
		t.putInto(t.rest, e)
		return
	}
	t.putInto(t.recent, e)
	t.arm()
}

func (t *containers) putInto(in *list.List, e *container) {
	if e.in == in {
		in.MoveToBack(e.at)
		return
	}
	if e.in != nil {
		e.in.Remove(e.at)
	}
	e.in, e.at = in, in.PushBack(e)
}

// touch notes that the container with that path is used now, if it is known.
func (t *containers) touch(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.all[path]; e != nil {
		t.use(e)
	}
}

// created notes that the Client has created a container.
func (t *containers) created(path string, stat *zk.Stat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(path)
	e.line, e.czxid, e.version = nil, stat.Czxid, stat.Version
	t.link(e)
	t.use(e)
}

// noteCreated notes that the Client has created a container. The size of a semaphore or a
// barrier must stay for as long as the servers leave it.
func (t *containers) noteCreated(path string, data []byte, stat *zk.Stat) {
	if len(data) == 0 || layout.IsMark(data) {
		t.created(path, stat)
	}
}

// written notes that the Client has written a line's data, or has read them and found that
// the line is this library's.
func (t *containers) written(path string, stat *zk.Stat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(path)
	e.czxid, e.version = stat.Czxid, stat.Version
	t.use(e)
}

// rewritten is like written for a line that may be somebody else's.
func (t *containers) rewritten(path string, stat *zk.Stat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.all[path]; e != nil && e.czxid == stat.Czxid {
		e.version = stat.Version
		t.use(e)
	}
}

// NoteUsed notes that the line is used now, if it is known.
func (l *Line) NoteUsed() { l.containers().touch(l.Abs()) }

// NoteRewritten notes that the Client has written the data of a line, which may be somebody
// else's.
func (l *Line) NoteRewritten(stat *zk.Stat) { l.containers().rewritten(l.Abs(), stat) }

func (l *Line) containers() *containers { return containersOf(l.Client) }

// stop makes the Client tidy no more. What is left is left to the servers.
func (t *containers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// arm sets the timer for the container that was not used for longest, if it is not set. A
// little later there are more, which go together. t.mu must be held.
func (t *containers) arm() {
	oldest := t.recent.Front()
	if t.stopped || t.tidying || oldest == nil {
		return
	}
	wait := time.Until(oldest.Value.(*container).used.Add(t.idle + t.idle/30))
	switch {
	case t.recent.Len() > maxRecent:
		t.tidying, t.armed = true, false
		if t.timer != nil {
			t.timer.Stop()
		}
		t.begin()
	case t.armed:
	case t.timer == nil:
		t.armed, t.timer = true, time.AfterFunc(wait, t.tick)
	default:
		t.armed = true
		t.timer.Reset(wait)
	}
}

// tick begins to tidy if there is something to delete.
func (t *containers) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.stopped || t.tidying {
		return
	}
	if !t.isDue() {
		t.arm()
		return
	}
	t.tidying = true
	t.begin()
}

// isDue reports whether the container that was not used for longest is to be deleted.
func (t *containers) isDue() bool {
	oldest := t.recent.Front()
	return oldest != nil && (t.recent.Len() > maxRecent || time.Since(oldest.Value.(*container).used) >= t.idle)
}
