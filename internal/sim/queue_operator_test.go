package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// runOperator deletes claims or one of their two znodes, places in the lines, items that
// are free, and now and then the whole queue. It sets data on segments and creates znodes
// below items.
func (w *queueWorld) runOperator() fault {
	return w.operate(2000, 4*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		remove := func(event, path string) {
			if err := w.deleteAsOperator(conn, path); err == nil {
				w.events.add(event)
			}
		}
		what := r.IntN(12)
		switch {
		case what < 2:
			line := w.path + []string{"/line", "/room"}[r.IntN(2)]
			if places := w.srv.Children(line); len(places) > 0 {
				w.disturb(r, conn, line+"/"+places[r.IntN(len(places))])
			}
		case what == 2 && w.deletesQueue:
			if r.IntN(2) == 0 {
				w.deleteQueue(conn)
			} else {
				w.deleteSegments(conn)
			}
		case what < 8:
			w.deleteClaim(r, remove, what)
		default:
			w.touch(r, conn, what)
		}
	})
}

// deleteClaim deletes one or both of the znodes of a claim.
func (w *queueWorld) deleteClaim(r *rand.Rand, remove func(event, path string), what int) {
	flags := w.claimFlags()
	if len(flags) == 0 {
		return
	}
	flag := flags[r.IntN(len(flags))]
	item, _, _ := strings.Cut(flag, ".")
	if what != 7 {
		remove("flag deleted", flag)
	}
	if what > 4 {
		remove("claim deleted", item+"/c")
	}
}

// touch sets data on a segment, deletes an item that is free, or creates a znode below an
// item.
func (w *queueWorld) touch(r *rand.Rand, conn *zk.Conn, what int) {
	segments := w.srv.Children(w.path + "/s")
	if len(segments) == 0 {
		return
	}
	segment := w.path + "/s/" + segments[r.IntN(len(segments))]
	if what < 10 {
		_, err := conn.Set(segment, []byte("operator's"), -1)
		w.log.note("operator: set %s: %v", segment, err)
		w.events.add("data set on a segment")
		return
	}
	names := w.srv.Children(segment)
	claimed := map[string]bool{}
	for _, name := range names {
		if item, _, ok := strings.Cut(name, "."); ok {
			claimed[item] = true
		}
	}
	items := slices.DeleteFunc(names, func(name string) bool { return len(name) != 32 || what == 10 && claimed[name] })
	if len(items) == 0 {
		return
	}
	item := segment + "/" + items[r.IntN(len(items))]
	if what == 10 {
		if w.deleteAsOperator(conn, item) == nil {
			w.events.add("free item deleted")
		}
		return
	}
	_, err := conn.Create(item+"/note", nil, 0, zk.WorldACL(zk.PermAll))
	w.log.note("operator: create %s/note: %v", item, err)
}

// deleteNoted deletes an item with the znodes below it, and with its mark if it is done,
// in one transaction. One after the other they would leave an item for a moment.
func (w *queueWorld) deleteNoted(conn *zk.Conn, item string, children []string) {
	var paths []string
	for _, name := range children {
		paths = append(paths, item+"/"+name)
	}
	paths = append(paths, item)
	if w.observer.isDone(item) {
		paths = append(paths, item+".done")
	}
	err := w.deleteAtOnce(conn, paths)
	w.log.note("operator: delete %v: %v", paths, err)
}

// deleteSegments deletes the segments and all below them in one transaction.
func (w *queueWorld) deleteSegments(conn *zk.Conn) {
	w.observer.setDeletingQueue(true)
	defer w.observer.setDeletingQueue(false)
	err := w.deleteAtOnce(conn, w.subtree(w.path+"/s"))
	w.log.note("operator: delete all of %s/s at once: %v", w.path, err)
	if err == nil {
		w.events.add("segments deleted")
	}
}

// deleteDone deletes items that are done, with the znodes below them and their marks. A
// mark may be gone, if the operator has failed to delete the queue.
func (w *queueWorld) deleteDone() {
	conn, done := w.rawConn()
	defer done()
	for _, segment := range w.srv.Children(w.path + "/s") {
		for _, name := range w.srv.Children(w.path + "/s/" + segment) {
			item := w.path + "/s/" + segment + "/" + name
			if !w.observer.isDone(item) {
				continue
			}
			for _, child := range w.srv.Children(item) {
				_ = conn.Delete(item+"/"+child, -1)
			}
			_ = conn.Delete(item, -1)
			_ = conn.Delete(item+".done", -1)
		}
	}
}

// claimFlags returns the paths of the flags of all claims.
func (w *queueWorld) claimFlags() (flags []string) {
	for _, segment := range w.srv.Children(w.path + "/s") {
		for _, name := range w.srv.Children(w.path + "/s/" + segment) {
			if strings.Contains(name, ".") && !strings.HasSuffix(name, ".done") {
				flags = append(flags, w.path+"/s/"+segment+"/"+name)
			}
		}
	}
	return flags
}

// deleteQueue deletes the queue and all below it as command-line tools do: one
// znode after the other, the leaves first.
func (w *queueWorld) deleteQueue(conn *zk.Conn) {
	w.observer.setDeletingQueue(true)
	var remove func(path string)
	remove = func(path string) {
		children := w.srv.Children(path)
		if slices.Contains(children, "note") {
			w.deleteNoted(conn, path, children)
			return
		}
		for _, name := range children {
			remove(path + "/" + name)
		}
		_ = w.deleteAsOperator(conn, path)
	}
	w.log.note("operator: delete all of %s", w.path)
	remove(w.path)
	w.log.note("operator: deleted all of %s", w.path)
	w.observer.setDeletingQueue(false)
	w.events.add("queue deleted")
}
