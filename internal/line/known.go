package line

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What a Client knows of the lines that it has used. A line that it has used a moment ago is joined
// without a look at it.

// LineState is what a client knows of a line.
type LineState struct {
	recipe string
	// Version is the version over which the next marker is written: -1 if a marker
	// is there, else the version of the empty data that were read.
	Version int32
	ACL
	crowd crowd
	used  time.Time
}

// ForPlaces returns the list of places in the line.
func (b ACL) ForPlaces(s *zkconn.Session) []zk.ACL {
	if b.list != nil {
		return b.list
	}
	return s.ACL()
}

// IdleLine is how long the client relies on what it knows of a line that it does not use. After
// that it reads the line before it joins, and deletes it if it may (tidy.go). The servers delete empty
// containers, too, by default once a minute, and then somebody else may use the path.
const IdleLine = 30 * time.Second

// ensure returns what the client knows of the line. On the client's first use, and
// when it has not used the line for IdleLine, it reads the line, and creates it if it
// does not exist. Then, and only then, the data tell that another recipe uses the path.
func (l *Line) ensure(ctx context.Context, s *session.Session) (LineState, error) {
	known, _, fresh := l.Known()
	if fresh {
		return known, nil
	}
	return l.readOrCreate(ctx, s, known)
}

// noteMarked updates what is known of a line after a join that wrote its data over that state.
// The Stat is the line's, from the reply. It returns what is known now of the line's ACL.
func (l *Line) noteMarked(s *session.Session, state LineState, stat *zk.Stat) ACL {
	bears := state.ACL
	switch {
	case bears.czxid != 0 && bears.czxid != stat.Czxid, bears.aversion != stat.Aversion:
		l.forget() // others have made it anew, or changed its list
		return ACL{list: bears.list}
	case bears.czxid == 0 && bears.Fingerprint != "": // this client has created it
		bears, _ = ourACL(s.Session, bears.Fingerprint, stat)
		l.remember(LineState{Version: -1, ACL: bears})
	case state.Version != -1:
		l.remember(LineState{Version: -1, ACL: bears})
	}
	l.NoteWritten(bears, stat)
	return bears
}

// NoteWritten notes that this client has written the data of a line with that ACL, or has read them
// and found that the line has it. The Stat is the line's, from the reply. Without a fingerprint, the line
// may be somebody else's.
func (l *Line) NoteWritten(bears ACL, stat *zk.Stat) {
	l.containers().written(l.Abs(), stat, bears.Fingerprint != "")
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

// forget is for a line that has gone, or is not what it was known to be.
func (l *Line) forget() {
	t := l.containers()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l.Abs())
}

// accepts reports whether a line that was marked by that recipe can be used by this one.
func (l *Line) accepts(recipe string) bool {
	return recipe == l.Recipe || l.AlsoAccepts != "" && recipe == l.AlsoAccepts
}

// The containers that a Client knows: lines, and what else it has created.

// maxContainers bounds what is remembered. What is forgotten is left to the servers.
const maxContainers = 40_000

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
	used    time.Time
}

type containers struct {
	idle   time.Duration // for which a container stays
	client *session.Client

	mu      sync.Mutex // behind all other mutexes
	all     map[string]*container
	tidying bool // tidy runs
}

func containersOf(c *session.Client) *containers { return session.Attached[containers](c, nil) }

func (l *Line) containers() *containers { return containersOf(l.Client) }

// get returns the container with that path. t.mu must be held.
func (t *containers) get(path string) *container {
	e := t.all[path]
	if e != nil {
		return e
	}
	if len(t.all) >= maxContainers {
		for some := range t.all {
			delete(t.all, some)
			break
		}
	}
	e = &container{path: path}
	t.all[path] = e
	return e
}

// use notes that e is used now. t.mu must be held.
func (t *containers) use(e *container) {
	e.used = time.Now()
	if e.czxid != 0 && !t.tidying && t.client.Closing.Err() == nil {
		t.tidying = true
		t.client.Tasks.Start(t.tidy)
	}
}

// touch notes that the container with that path is used now, if it is known.
func (t *containers) touch(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.all[path]; e != nil {
		t.use(e)
	}
}

// created notes that the Client has created a container, and so may delete it. It leaves one with other
// data than a line's, such as the size of a semaphore, to the servers.
func (t *containers) created(path string, data []byte, stat *zk.Stat) {
	if len(data) > 0 && !layout.IsMark(data) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(path)
	e.line, e.czxid, e.version = nil, stat.Czxid, stat.Version
	t.use(e)
}

// written notes the version of a line's data. ours: the line is this library's, so the Client may
// delete it. Otherwise it may only if it may delete the znode with that czxid already.
func (t *containers) written(path string, stat *zk.Stat, ours bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[path]
	switch {
	case ours:
		e = t.get(path)
		e.czxid = stat.Czxid
	case e == nil, e.czxid != stat.Czxid:
		return
	}
	e.version = stat.Version
	t.use(e)
}

// MaxNumber is the last sequence number that is granted; see rollOver.
// ZooKeeper's counter of creates sticks at 2147483647, and concurrent creates
// wrap to negative numbers there (PrepRequestProcessor, DataNode's cversion).
// The difference is room for creates in flight.
const MaxNumber = math.MaxInt32 - 1_000_000

// Settings are what the lines of a Client need beside its Config. All of it must be set.
type Settings struct {
	LastNumber int32
	LongLine   int
}

// NewClient returns a client that does not connect yet, with what its lines need.
func NewClient(cfg session.Config, set Settings) *session.Client {
	t := &containers{idle: cfg.Idle, all: map[string]*container{}}
	t.client = session.New(cfg, func(s *session.Session, conn *zkconn.Config) func(error) {
		conn.Created, conn.Left = func(path string, data []byte, stat *zk.Stat) {
			t.created(path, data, stat)
			s.NoteParentOf(path)
		}, t.touch
		return hold.AttachWatchdog(s, conn)
	})
	session.Attached(t.client, func() *Settings { return &set })
	session.Attached(t.client, func() *containers { return t })
	return t.client
}

func settingsOf(c *session.Client) *Settings { return session.Attached[Settings](c, nil) }

// crowd is what a client remembers of the places in a line. It tells whether to guess.
type crowd struct {
	// children is how many there were when the client last looked, 0 if that is not known.
	children int
	// others is the number of children that are not places, as of the last listing.
	others int
	// tail is the kind of the place that had joined last then.
	tail layout.Kind
	// failed makes joins list instead of guess, until a listing shows one of this library's places
	// directly ahead.
	failed bool
}

func (c crowd) isLong(longLine int) bool { return c.children-c.others > longLine }

// noteCount remembers how many children the line has.
func (l *Line) noteCount(n int) { l.note(func(s *LineState) { s.crowd.children = n }) }

// noteChildren is noteCount for a client that has listed the children: it can tell how many
// of them are places.
func (l *Line) noteChildren(n, places int) {
	l.note(func(s *LineState) { s.crowd.children, s.crowd.others = n, n-places })
}
