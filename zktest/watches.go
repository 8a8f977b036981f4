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
// mode for a path: the last one asked for counts, so a GetW on a path with a
// persistent watch makes that a one-shot watch, as on the real server.
type watches struct {
	server    *Server
	table     map[string]map[*conn]watchMode
	recursive int // how many there are; without any, no parents are looked at
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

// contains tells whether a watch stands at path. The real server does not look
// whose it is (WatchManager.containsWatcher), so this does not either.
func (w *watches) contains(path string, _ *conn) bool {
	return w.table[path] != nil
}

// fire tells the watchers of path, once each, and those above it that watch
// recursively. Those in told have heard. A watcher that may not read the node
// hears nothing, and its watch is used up (ZOOKEEPER-4799: 3.8.4 and 3.9.2).
func (w *watches) fire(path string, event int32, acl []jute.ACL, told map[*conn]struct{}) map[*conn]struct{} {
	var hear map[*conn]struct{}
	tell := func(c *conn) {
		if hear == nil {
			hear = map[*conn]struct{}{}
		}
		hear[c] = struct{}{}
	}
	for c, m := range w.table[path] {
		if m == recursive && event == jute.EventChildrenChanged {
			continue // its watcher sees the children themselves
		}
		tell(c)
		if m == oneShot {
			w.remove(path, c)
		}
	}
	if w.recursive > 0 && event != jute.EventChildrenChanged {
		for above := path; above != "/"; {
			above = above[:max(strings.LastIndexByte(above, '/'), 1)]
			for c, m := range w.table[above] {
				if m == recursive {
					tell(c)
				}
			}
		}
	}
	for c := range hear {
		if _, ok := told[c]; !ok && w.server.allowed(c.ids, acl, jute.PermRead) {
			c.event(event, path)
		}
	}
	return hear
}

// forget drops all watches of a connection that is gone.
func (r *replica) forget(c *conn) {
	for path := range c.watched {
		r.dataWatches.remove(path, c)
		r.childWatches.remove(path, c)
	}
}
