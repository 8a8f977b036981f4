package zktest

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// watchMode is a set of modes of watches.
type watchMode uint8

const (
	oneShot watchMode = 1 << iota
	persistent
	recursive

	anyMode = oneShot | persistent | recursive
)

// watches is a table of watches (WatchManager). Since 3.9, a connection can have
// a watch of each mode on a path (ZOOKEEPER-4466). Before, it had one, with the
// mode of its latest request: a GetW on a path with a persistent watch turned that
// into a one-shot watch.
type watches struct {
	server    *Server
	table     map[string]map[*conn]watchMode // by path
	recursive int                            // recursive watches; if 0, fire skips the ancestors
}

func (w *watches) add(path string, c *conn, m watchMode) {
	if c.detached {
		return
	}
	if w.server.opt.version >= ZooKeeper39 {
		m |= w.table[path][c]
	}
	w.set(path, c, m)
}

// set sets the modes of a connection's watches on a path.
func (w *watches) set(path string, c *conn, m watchMode) {
	old := w.table[path][c]
	w.recursive += int(m&recursive)/int(recursive) - int(old&recursive)/int(recursive)
	switch {
	case m != 0:
		if w.table[path] == nil {
			w.table[path] = map[*conn]watchMode{}
		}
		w.table[path][c] = m
		if old == 0 {
			c.watched[path]++
		}
	case old != 0:
		delete(w.table[path], c)
		if len(w.table[path]) == 0 {
			delete(w.table, path)
		}
		if c.watched[path]--; c.watched[path] == 0 {
			delete(c.watched, path)
		}
	}
}

// remove removes the watches of a connection on a path that have one of the
// modes. It reports whether there were any.
func (w *watches) remove(path string, c *conn, m watchMode) bool {
	old := w.table[path][c]
	w.set(path, c, old&^m)
	return old&m != 0
}

// contains reports whether the connection has a watch on path with one of the
// modes. Before 3.9 a real server ignored whose watch it is
// (WatchManager.containsWatcher).
func (w *watches) contains(path string, c *conn, m watchMode) bool {
	if w.server.opt.version < ZooKeeper39 {
		return m != 0 && w.table[path] != nil
	}
	return w.table[path][c]&m != 0
}

// fire sends an event, at most one per connection, to the watchers of path and
// to the recursive watchers of its ancestors. It skips connections in notified,
// which have the event already. A connection without read permission gets no
// event, but its watch is used up (ZOOKEEPER-4799, since 3.8.4 and 3.9.2). fire
// returns the connections whose watches fired.
func (w *watches) fire(path string, event int32, acl []jute.ACL, notified map[*conn]struct{}) map[*conn]struct{} {
	var fired map[*conn]struct{}
	mark := func(c *conn) {
		if fired == nil {
			fired = map[*conn]struct{}{}
		}
		fired[c] = struct{}{}
	}
	for c, m := range w.table[path] {
		if m == recursive && event == jute.EventChildrenChanged {
			continue // a recursive watcher gets the events of the children themselves
		}
		mark(c)
		w.set(path, c, m&^oneShot)
	}
	if w.recursive > 0 && event != jute.EventChildrenChanged {
		for above := path; above != "/"; {
			above = above[:max(strings.LastIndexByte(above, '/'), 1)]
			for c, m := range w.table[above] {
				if m&recursive != 0 {
					mark(c)
				}
			}
		}
	}
	for c := range fired {
		if _, ok := notified[c]; !ok && w.server.allowed(c.ids, acl, jute.PermRead) {
			c.event(event, path, c.replica.zxid)
		}
	}
	return fired
}

// addPersistent adds a persistent or a recursive watch. Before 3.9 a recursive
// watch stood in both tables.
func (r *replica) addPersistent(path string, c *conn, m watchMode) {
	r.dataWatches.add(path, c, m)
	if m != recursive || c.server.opt.version < ZooKeeper39 {
		r.childWatches.add(path, c, m)
	}
}

// watchesOfKind returns the modes in each table that a checkWatches or
// removeWatches means by a Watcher.WatcherType. Before 3.9 it meant all modes.
// watchesOfKind returns false if the server does not know kind.
func (r *replica) watchesOfKind(kind int32) (child, data watchMode, ok bool) {
	before := r.dataWatches.server.opt.version < ZooKeeper39
	switch {
	case kind == jute.WatcherAny:
		return anyMode, anyMode, true
	case kind == jute.WatcherChildren && before:
		return anyMode, 0, true
	case kind == jute.WatcherData && before:
		return 0, anyMode, true
	case kind == jute.WatcherChildren:
		return oneShot, 0, true
	case kind == jute.WatcherData:
		return 0, oneShot, true
	case kind == jute.WatcherPersistent && !before:
		return persistent, persistent, true
	case kind == jute.WatcherPersistentRecursive && !before:
		return 0, recursive, true
	}
	return 0, 0, false
}

// forget removes all watches of a connection.
func (r *replica) forget(c *conn) {
	for path := range c.watched {
		r.dataWatches.remove(path, c, anyMode)
		r.childWatches.remove(path, c, anyMode)
	}
}
