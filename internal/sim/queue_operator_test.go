package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// operate deletes claims, or one half of them, places in the lines, and now and
// then the whole queue.
func (w *queueWorld) runOperator(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.rawConn()
	defer done()
	remove := func(what, path string) {
		w.waitWorld.mu.Lock()
		w.operatorDeleted[path] = true
		w.waitWorld.mu.Unlock()
		err := conn.Delete(path, -1)
		w.log.note("operator: delete %s: %v", path, err)
		if err == nil {
			w.events.add(what)
		}
	}
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(4 * time.Second)))):
		case <-calm:
			return
		}
		what := r.IntN(8)
		if what < 2 {
			line := w.path + []string{"/line", "/room"}[r.IntN(2)]
			if places := w.srv.Children(line); len(places) > 0 {
				remove("place deleted", line+"/"+places[r.IntN(len(places))])
			}
			continue
		}
		if what == 2 && w.deletesQueue {
			w.deleteQueue(conn)
			continue
		}
		flags := w.claimFlags()
		if len(flags) == 0 {
			continue
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
}

func (w *queueWorld) claimFlags() (flags []string) {
	for _, segment := range w.srv.Children(w.path + "/s") {
		for _, name := range w.srv.Children(w.path + "/s/" + segment) {
			if strings.Contains(name, ".") {
				flags = append(flags, w.path+"/s/"+segment+"/"+name)
			}
		}
	}
	return flags
}

// wipe deletes the queue with all below it, as tools do: one znode after the
// other, the leaves first.
func (w *queueWorld) deleteQueue(conn *zk.Conn) {
	w.observer.setDeletingQueue(true)
	var remove func(path string)
	remove = func(path string) {
		for _, name := range w.srv.Children(path) {
			remove(path + "/" + name)
		}
		w.waitWorld.mu.Lock()
		w.operatorDeleted[path] = true
		w.waitWorld.mu.Unlock()
		_ = conn.Delete(path, -1)
	}
	w.log.note("operator: delete %s", w.path)
	remove(w.path)
	w.log.note("operator: done")
	w.observer.setDeletingQueue(false)
	w.events.add("queue deleted")
}
