package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// groupWorld is the workload of Group. Each process has a member that stays for the whole run,
// and a watcher. Workers join, update and leave.
type groupWorld struct {
	*waitWorld
	quiet   context.CancelFunc // ends their updates
	updates context.Context
	states  *history[string, string] // of each member's znode, by path

	mu    sync.Mutex
	seen  map[int]map[string]string // what each process's watcher saw last: data by path
	stays map[string]string         // the data of the members that stay, by path
}

var groupEvents = []string{
	"canceled at a step", "joined", "updated", "left", "stayed", "member deleted", "seen", "watched again", "listed", "refused an id",
}

func newGroupWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, fixed(
		"create2", "setData", "delete", "multi(createContainer,create,delete)", "getData", "exists", "sync", "getChildren2",
	), "/app/members")
	w := &groupWorld{waitWorld: g, states: newHistory[string](noZnode), seen: map[int]map[string]string{}, stays: map[string]string{}}
	w.lags = true
	w.operated(w.deleteMembers())
	return w.with(w)
}

func (w *groupWorld) onChange(c zktest.Change) {
	if !strings.HasPrefix(c.Path, w.path()+"/") {
		return
	}
	now := string(c.Data)
	if c.Deleted {
		now = noZnode
	}
	w.states.add(c.Path, now)
	w.faultAtStep(c)
}

func (w *groupWorld) begin() {
	w.waitWorld.begin()
	w.updates, w.quiet = context.WithCancel(w.follow)
	for _, p := range w.processes {
		w.followers.Go(func() { w.stay(p) })
		w.followers.Go(func() { w.watch(p) })
	}
}

// deleteMembers is an operator that deletes members' znodes, which are created again.
func (w *groupWorld) deleteMembers() fault {
	return w.operate(2700, 5*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		if names := w.srv.Children(w.path()); len(names) > 0 && conn.Delete(w.path()+"/"+names[r.IntN(len(names))], -1) == nil {
			w.events.add("member deleted")
		}
	})
}

// checkAtRest checks that exactly the members that stay are there, with their last data, that
// all watchers see them, and that nothing is left when they have left.
func (w *groupWorld) checkAtRest() {
	w.quiet()
	time.Sleep(4 * w.timeout) // sessions of killed clients end, and a server may lag
	w.checkMembers(w.clients)
	w.stopFollowers()
	w.checkEmpty(w.path())
}

func (w *groupWorld) checkMembers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[string]string{}
	for _, path := range w.states.keys() {
		if now, _ := w.states.now(path); now != noZnode {
			there[path] = now
		}
	}
	if fmt.Sprint(there) != fmt.Sprint(w.stays) || len(there) != n {
		w.log.violation("at rest the members are %v, and should be the %d %v", there, n, w.stays)
	}
	for i := range w.clients {
		if fmt.Sprint(w.seen[i]) != fmt.Sprint(there) {
			w.log.violation("at rest the watcher of client %d sees %v, and there are %v", i, w.seen[i], there)
		}
	}
}
