package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
)

// runOperator deletes places, and sets the data of holders' and waiters'.
func (w *lockWorld) runOperator(stop <-chan struct{}) {
	w.operate(2000, 6*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		path := w.paths[r.IntN(len(w.paths))]
		places := placesAmong(w.srv.Children(path))
		if len(places) == 0 {
			return
		}
		place := path + "/" + places[r.IntN(len(places))]
		switch {
		case !w.operator:
			w.setAsOperator(conn, place)
		case r.IntN(4) == 0:
			w.evictUnheard(r, conn, place, stop)
		default:
			w.disturb(r, conn, place)
		}
	})(stop)
}

// placesAmong leaves out the znode that names the holder. If it is deleted, a lock delay ends.
func placesAmong(children []string) []string {
	return slices.DeleteFunc(children, func(name string) bool { return name == line.HeldName })
}

// evictUnheard deletes a place while nothing reaches its client. The place ahead of it may leave
// in the meantime: then the client receives both events at once.
func (w *lockWorld) evictUnheard(r *rand.Rand, conn *zk.Conn, place string, stop <-chan struct{}) {
	i, data := 0, []byte(nil)
	data, _, err := conn.Get(place)
	if err != nil {
		return
	}
	if _, err := fmt.Sscanf(string(data), "client %d.", &i); err != nil { // another library's
		return
	}
	net := w.processes[i].net
	net.freeze()
	defer net.thaw()
	w.removeAsOperator(conn, place, "place deleted unheard")
	select {
	case <-time.After(time.Duration(r.Int64N(int64(w.timeout)))):
	case <-stop:
	}
}

// runForeignClient joins and leaves lines as another library's client does. It sets
// the data of its places, and deletes them whether they are first or not.
func (w *lockWorld) runForeignClient(i int, prefix string) fault {
	return w.operate(3000+i, 5*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		line := w.paths[r.IntN(len(w.paths))]
		place, err := conn.Create(line+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return
		}
		w.log.note("foreign client: %s", place)
		w.events.add("foreign place")
		for range 1 + r.IntN(3) {
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
			_, _ = conn.Set(place, []byte("whatever"), -1)
		}
		reader := ""
		if strings.Contains(prefix, "__WRIT__") && r.IntN(2) == 0 {
			reader = w.downgradeAsCurator(r, conn, place)
		}
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		deleteUntilGone(conn, place)
		if reader != "" {
			time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
			deleteUntilGone(conn, reader)
		}
	})
}

// downgradeAsCurator creates a reader's place as Curator's writers do. It has the
// writer's number and a UUID of its own, and the writer's place is still there.
// Here it is one transaction with a check of the writer's place, because the
// writer's session may have expired.
func (w *lockWorld) downgradeAsCurator(r *rand.Rand, conn *zk.Conn, writer string) string {
	number := writer[strings.LastIndex(writer, "__WRIT__")+len("__WRIT__"):]
	first := r.Uint32() >> (8 * r.IntN(2)) // sorts before the writer's, or after
	reader := fmt.Sprintf("%s/_c_%08x-5b6a-4789-8abc-def012345678-__READ__%s", writer[:strings.LastIndexByte(writer, '/')], first, number)
	_, err := conn.Multi(
		&zk.CheckVersionRequest{Path: writer, Version: -1},
		&zk.CreateRequest{Path: reader, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	w.log.note("foreign client: downgrade to %s: %v", reader, err)
	if err == nil {
		w.events.add("foreign downgrade")
	}
	return reader
}

// deleteUntilGone deletes a place, and retries until it is gone.
func deleteUntilGone(conn *zk.Conn, place string) {
	for {
		err := conn.Delete(place, -1)
		if err == nil || err == zk.ErrNoNode {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
