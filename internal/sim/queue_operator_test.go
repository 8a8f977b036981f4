package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// runOperator deletes claims or one of their two znodes, places in the lines, and
// now and then the whole queue.
func (w *queueWorld) runOperator(stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.rawConn()
	defer done()
	remove := func(event, path string) {
		if err := w.deleteAsOperator(conn, path); err == nil {
			w.events.add(event)
		}
	}
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(4 * time.Second)))):
		case <-stop:
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

// deleteAsOperator deletes a znode, and remembers before that it was the operator.
func (w *queueWorld) deleteAsOperator(conn *zk.Conn, path string) error {
	w.waitWorld.mu.Lock()
	w.operatorDeleted[path] = true
	w.waitWorld.mu.Unlock()
	err := conn.Delete(path, -1)
	w.log.note("operator: delete %s: %v", path, err)
	return err
}

// claimFlags returns the paths of the flags of all claims.
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

// deleteQueue deletes the queue and all below it as command-line tools do: one
// znode after the other, the leaves first.
func (w *queueWorld) deleteQueue(conn *zk.Conn) {
	w.observer.setDeletingQueue(true)
	var remove func(path string)
	remove = func(path string) {
		for _, name := range w.srv.Children(path) {
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
