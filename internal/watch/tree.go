package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Tree tells what the znodes of a tree are, and then what has become of those that have changed.
//
// On each connection it sets one watch for all of the tree, and then walks through the tree: it reads
// each znode, or its Stat if the data are known. From then on, an event has its znode read again. The
// server sends an event ahead of the reply to any read that shows the change. So whenever no read is
// under way, what is known is what the server had at one moment.
//
// A reply that comes behind an event may be older than the event. That does no harm, since the znode
// is read again. But if it was deleted meanwhile, the reply may be of the znode that was there
// before, and is dropped.
//
// Order between sessions, and what a lagging server may say, is as for a [Follower].
type Tree struct {
	Root   string
	Prefix string // of paths, for errors
	Znodes int    // bound of their number
	Bytes  int64  // bound of the sum of their data
	// Tell is called with the znodes that have changed, by their paths.
	Tell func(map[string]State) error

	told    bool
	history int64
	bytes   int64
	known   map[string]*znode
	changed map[string]State
	since   time.Time // since when changed has had something
	walks   int32
}

// znode is what a Tree remembers of one.
type znode struct {
	czxid, mzxid, pzxid int64
	size                int32
	walk                int32 // the last one that has seen it; 0: none yet
}

// ErrTreeTooLarge is returned if the tree has more than the bounds allow.
var ErrTreeTooLarge = errors.New("tree is too large")

var errTreeLost = errors.New("the watch of the tree was lost")

const (
	// treeReads is how many reads are under way at a time.
	treeReads = 64
	// longestWait is for how long changes wait for a moment at which nothing is asked for.
	longestWait = time.Second
)

// Follow follows the tree until the session ends, and returns ErrSessionOver then. Call it with one
// session after the other.
func (t *Tree) Follow(ctx context.Context, s *zkconn.Session) error {
	if t.known == nil {
		t.known, t.changed = map[string]*znode{}, map[string]State{}
	}
	if err := s.Sync(ctx, t.Root); err != nil {
		return err
	}
	for old := 0; ; {
		err := t.onConnection(ctx, s)
		switch {
		case errors.Is(err, ErrWentBack):
			if old++; old > zkconn.MaxTries {
				return err
			}
			if err := zkconn.Until(ctx, s, time.After(s.Timeout()/zkconn.MaxTries)); err != nil {
				return err
			}
			err = s.Sync(ctx, t.Root)
		case errors.Is(err, errTreeLost):
			err, old = nil, 0
		}
		if err != nil {
			return err
		}
	}
}

// treeRead is a read under way, of all that is asked about a znode.
type treeRead struct {
	path string
	what treeAsk
	walk bool // the walk waits for it
	*zkconn.Reading
	gone bool // an event of the znode's deletion has come since it was sent
}

type treeAsk int

const (
	askData     treeAsk = iota // the znode is not known, or has changed
	askStat                    // it is known
	askChildren                // which the znode has
)

// treeWalk is what is under way on one connection.
type treeWalk struct {
	*Tree
	s           *zkconn.Session
	watch       *zkconn.TreeWatch
	newData     <-chan struct{} // closed when the servers may have lost transactions
	next        []treeRead      // to be sent, the last one first
	sent        []*treeRead     // in order
	queued      map[string]bool // whose data are asked for in next, because of an event
	left        int             // reads of the walk that have not ended; when they have, what was not seen is gone
	walked      bool
	unseen      int                 // znodes that were known before the walk, which has not reached them
	unseenBytes int64               // of their data
	children    map[string][]string // of the znodes that were known before the walk
}

// onConnection follows the tree for as long as its watch lives.
func (t *Tree) onConnection(ctx context.Context, s *zkconn.Session) error {
	watch, err := s.WatchTree(ctx, t.Root)
	if err != nil {
		return err
	}
	defer watch.Close()
	w := &treeWalk{
		Tree: t, s: s, watch: watch, newData: s.NewHistory(),
		queued: map[string]bool{}, children: map[string][]string{},
		unseen: len(t.known), unseenBytes: t.bytes,
	}
	defer w.forgetChildren()
	t.walks++
	if history := s.History(); history != t.history {
		t.history = history
		for _, z := range t.known { // the same zxid may stand for other data
			z.mzxid, z.pzxid = 0, 0
		}
	}
	for path := range t.known {
		if path != t.Root {
			above := parent(path)
			w.children[above] = append(w.children[above], path)
		}
	}
	w.visit(t.Root)
	for {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
}

// forgetChildren is for the end of a connection: where the children of a znode may not all be known,
// the next walk must list them.
func (w *treeWalk) forgetChildren() {
	for _, r := range w.sent {
		w.next = append(w.next, *r)
	}
	for _, r := range w.next {
		path := r.path
		if r.what != askChildren {
			path = parent(path)
		}
		if z := w.known[path]; z != nil {
			z.pzxid = 0
		}
	}
}

func parent(path string) string {
	if above := zkconn.Parent(path); above != "" {
		return above
	}
	return "/"
}

// visit has the walk read a znode.
func (w *treeWalk) visit(path string) {
	what := askData
	if w.known[path] != nil {
		what = askStat
	}
	w.ask(path, what)
}

// ask has something read as a part of the walk.
func (w *treeWalk) ask(path string, what treeAsk) {
	w.next = append(w.next, treeRead{path: path, what: what, walk: true})
	w.left++
}

// askAgain has a znode read of which an event has come.
func (w *treeWalk) askAgain(path string) {
	if !w.queued[path] {
		w.queued[path] = true
		w.next = append(w.next, treeRead{path: path})
	}
}

// step sends what can be sent, tells what can be told, and waits for the next thing to come.
func (w *treeWalk) step(ctx context.Context) error {
	if err := w.send(); err != nil {
		return err
	}
	if w.isDue() {
		changed := w.changed
		w.changed = map[string]State{}
		if !w.told { // what came and went meanwhile
			maps.DeleteFunc(changed, func(_ string, s State) bool { return s.Stat == nil })
		}
		w.told = true
		return w.Tell(changed)
	}
	var answered <-chan struct{}
	if len(w.sent) > 0 {
		answered = w.sent[0].Done()
	}
	select {
	case <-answered:
	case <-w.watch.Some():
	case <-w.watch.Lost():
	case <-w.newData:
	case <-w.s.Over():
		return zkconn.ErrSessionOver
	case <-ctx.Done():
		return w.s.ContextErr(ctx)
	}
	return w.take(ctx)
}

// isDue reports whether there is something to be told, and now is the time.
func (w *treeWalk) isDue() bool {
	switch {
	case !w.walked, w.told && len(w.changed) == 0:
		return false
	case len(w.next) == 0 && len(w.sent) == 0:
		return true
	}
	return len(w.changed) > 0 && time.Since(w.since) >= longestWait
}

func (w *treeWalk) send() error {
	for len(w.next) > 0 && len(w.sent) < treeReads {
		r := w.next[len(w.next)-1]
		start := w.s.StartGet
		switch r.what {
		case askStat:
			start = w.s.StartExists
		case askChildren:
			start = w.s.StartChildren
		}
		var err error
		if r.Reading, err = start(r.path); err != nil {
			return w.lostBy(err)
		}
		w.next = w.next[:len(w.next)-1]
		if !r.walk {
			delete(w.queued, r.path)
		}
		w.sent = append(w.sent, &r)
	}
	return nil
}

// lostBy returns the error for a request that has failed with err.
func (w *treeWalk) lostBy(err error) error {
	switch {
	case w.s.IsOver():
		return zkconn.ErrSessionOver
	case errors.Is(err, zkconn.ErrNotSent):
		return errTreeLost
	}
	return err
}

// take takes what has come: events, and then the replies that came after them.
func (w *treeWalk) take(ctx context.Context) error {
	select {
	case <-w.watch.Lost():
		if err := w.watch.Err(); err != nil {
			return err
		}
		return errTreeLost
	case <-w.newData:
		return errTreeLost
	default:
	}
	n := 0 // looked at before the events are
	for n < len(w.sent) && hasEnded(w.sent[n]) {
		n++
	}
	w.takeEvents()
	for range n {
		if err := w.settle(ctx, w.sent[0]); err != nil {
			return err
		}
		w.sent = w.sent[1:]
	}
	if w.left == 0 && !w.walked {
		w.walked, w.children = true, nil
		for path, z := range w.known {
			if z.walk != w.walks {
				w.delete(path)
			}
		}
	}
	return w.checkSize()
}

func (w *treeWalk) takeEvents() {
	events := w.watch.Take()
	for _, r := range w.sent {
		r.gone = r.gone || events[r.path].WasGone
	}
	for path, e := range events {
		if e.Gone {
			w.delete(path)
		} else {
			w.askAgain(path)
		}
	}
}

func hasEnded(r *treeRead) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// settle takes a reply.
func (w *treeWalk) settle(ctx context.Context, r *treeRead) error {
	var s State
	var err error
	switch r.what {
	case askData:
		s.Data, s.Stat, err = r.Data()
	case askStat:
		s.Stat, err = r.Stat()
	case askChildren:
		s.Children, s.Stat, err = r.Names()
	}
	if r.walk {
		w.left--
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.delete(r.path)
		return nil
	case err != nil:
		return w.failed(ctx, r, err)
	case r.what == askChildren:
		w.visitChildren(r.path, s.Children)
		return nil
	case r.gone:
		return nil
	}
	return w.note(r, s)
}

// failed has what has failed with err read again, or returns why the walk ends.
func (w *treeWalk) failed(ctx context.Context, r *treeRead, err error) error {
	switch {
	case w.s.IsOver() && zkconn.Transient(err):
		return zkconn.ErrSessionOver
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zkconn.ErrNotSent):
		return errTreeLost
	case !zkconn.Transient(err):
		return fmt.Errorf("%s: %w", strings.TrimPrefix(r.path, w.Prefix), err)
	}
	// The server refuses it for now. Get waits for as long as it does.
	if _, _, err := w.s.Get(ctx, r.path); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if r.walk {
		w.ask(r.path, r.what)
	} else {
		w.askAgain(r.path)
	}
	return nil
}

// visitChildren has the walk read the children of a znode.
func (w *treeWalk) visitChildren(path string, names []string) {
	for _, name := range names {
		w.visit(strings.TrimSuffix(path, "/") + "/" + strings.Clone(name))
	}
}

// note notes what a znode is.
func (w *treeWalk) note(r *treeRead, now State) error {
	z := w.known[r.path]
	stat := now.Stat
	same := z != nil && z.czxid == stat.Czxid && z.mzxid == stat.Mzxid
	switch {
	case z != nil && stat.Mzxid < z.mzxid:
		return ErrWentBack
	case z == nil && r.what == askStat, !same && r.what == askStat:
		w.ask(r.path, askData)
		return nil
	case z == nil:
		z = &znode{}
		w.known[r.path] = z
	}
	if !w.walked && z.walk != w.walks {
		w.visitBelow(r.path, z, stat)
	}
	w.reach(z)
	if !same {
		w.bytes += int64(stat.DataLength) - int64(z.size)
		w.change(r.path, now)
	}
	*z = znode{stat.Czxid, stat.Mzxid, stat.Pzxid, stat.DataLength, w.walks}
	return nil
}

// visitBelow has the walk read the children of a znode, which was known to be z.
func (w *treeWalk) visitBelow(path string, z *znode, now *zk.Stat) {
	switch {
	case z.czxid == now.Czxid && z.pzxid == now.Pzxid: // no child has come or gone
		for _, child := range w.children[path] {
			w.visit(child)
		}
	case now.NumChildren > 0:
		w.ask(path, askChildren)
	}
}

// delete notes that a znode is gone.
func (w *treeWalk) delete(path string) {
	if z := w.known[path]; z != nil {
		w.reach(z)
		delete(w.known, path)
		w.bytes -= int64(z.size)
		w.change(path, State{})
	}
}

// reach notes that the walk has reached z, or that z is gone.
func (w *treeWalk) reach(z *znode) {
	if z.walk != w.walks && z.walk != 0 {
		w.unseen--
		w.unseenBytes -= int64(z.size)
	}
}

func (w *treeWalk) change(path string, now State) {
	if len(w.changed) == 0 {
		w.since = time.Now()
	}
	w.changed[path] = now
}

// checkSize does not count what the walk has not reached: it may be gone.
func (w *treeWalk) checkSize() error {
	switch {
	case len(w.known)-w.unseen+w.left > w.Znodes && w.tooMany():
		return fmt.Errorf("%w: more than %d znodes", ErrTreeTooLarge, w.Znodes)
	case w.bytes-w.unseenBytes > w.Bytes:
		return fmt.Errorf("%w: more than %d bytes of data", ErrTreeTooLarge, w.Bytes)
	}
	return nil
}

// tooMany reports whether there are more znodes than allowed, with those that the walk is yet to
// read for the first time.
func (w *treeWalk) tooMany() bool {
	n := len(w.known) - w.unseen
	for _, r := range w.next {
		if r.walk && r.what == askData && w.known[r.path] == nil {
			n++
		}
	}
	return n > w.Znodes
}
