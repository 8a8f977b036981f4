package zktest

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

type watchMode uint8

const (
	oneShot watchMode = iota
	persistent
	recursive
)

// watches is a table of watches (WatchManager). A connection has at most one
// watch on a path, with the mode of its latest request. As on a real server, a
// GetW on a path with a persistent watch turns that into a one-shot watch.
type watches struct {
	server    *Server
	table     map[string]map[*conn]watchMode // by path
	recursive int                            // recursive watches; if 0, fire skips the ancestors
}

func (w *watches) add(path string, c *conn, m watchMode) {
	if c.detached {
		return
	}
	if w.table[path] == nil {
		w.table[path] = map[*conn]watchMode{}
	}
	old, had := w.table[path][c]
	if had && old == recursive {
		w.recursive--
	}
	if m == recursive {
		w.recursive++
	}
	w.table[path][c] = m
	if !had {
		c.watched[path]++
	}
}

func (w *watches) remove(path string, c *conn) bool {
	m, ok := w.table[path][c]
	if !ok {
		return false
	}
	if m == recursive {
		w.recursive--
	}
	delete(w.table[path], c)
	if len(w.table[path]) == 0 {
		delete(w.table, path)
	}
	if c.watched[path]--; c.watched[path] == 0 {
		delete(c.watched, path)
	}
	return true
}

// contains reports whether any connection watches path. A real server ignores whose
// watch it is (WatchManager.containsWatcher), so contains does too. It has the
// signature of remove.
func (w *watches) contains(path string, _ *conn) bool {
	return w.table[path] != nil
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
		if m == oneShot {
			w.remove(path, c)
		}
	}
	if w.recursive > 0 && event != jute.EventChildrenChanged {
		for above := path; above != "/"; {
			above = above[:max(strings.LastIndexByte(above, '/'), 1)]
			for c, m := range w.table[above] {
				if m == recursive {
					mark(c)
				}
			}
		}
	}
	for c := range fired {
		if _, ok := notified[c]; !ok && w.server.allowed(c.ids, acl, jute.PermRead) {
			c.event(event, path)
		}
	}
	return fired
}

// forget removes all watches of a connection.
func (r *replica) forget(c *conn) {
	for path := range c.watched {
		r.dataWatches.remove(path, c)
		r.childWatches.remove(path, c)
	}
}
