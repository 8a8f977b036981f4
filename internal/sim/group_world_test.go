package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

	mu     sync.Mutex
	states map[string][]string       // of each member's znode, the oldest first, by path
	seen   map[int]map[string]string // what each process's watcher saw last: data by path
	stays  map[string]string         // the data of the members that stay, by path
}

var groupEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step",
	"joined", "updated", "left", "stayed", "member deleted", "seen", "watched again", "listed", "refused an id",
}

func newGroupWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(int) []string {
		return []string{"create2", "setData", "delete", "multi(createContainer,create,delete)", "getData", "exists", "sync", "getChildren2"}
	}, "/app/members")
	w := &groupWorld{waitWorld: g, states: map[string][]string{}, seen: map[int]map[string]string{}, stays: map[string]string{}}
	w.workload = w
	return w.world
}

func (w *groupWorld) path() string { return w.paths[0] }

func (w *groupWorld) onChange(c zktest.Change) {
	if !strings.HasPrefix(c.Path, w.path()+"/") {
		return
	}
	w.mu.Lock()
	now := string(c.Data)
	if c.Deleted {
		now = noZnode
	}
	w.states[c.Path] = append(w.history(c.Path), now)
	w.mu.Unlock()
	w.faultAtStep(c)
}

// history returns the states of a member's znode. w.mu must be held.
func (w *groupWorld) history(path string) []string {
	if all := w.states[path]; len(all) > 0 {
		return all
	}
	return []string{noZnode}
}

// now returns the number of the latest state of a member's znode.
func (w *groupWorld) now(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history(path)) - 1
}

// wasSince reports whether a member's znode had such data since a state.
func (w *groupWorld) wasSince(path, data string, from int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.history(path)[from:], data)
}

func (w *groupWorld) begin() {
	w.waitWorld.begin()
	w.lagBehind()
	w.updates, w.quiet = context.WithCancel(w.follow)
	for _, p := range w.processes {
		w.followers.Go(func() { w.stay(p) })
		w.followers.Go(func() { w.watch(p) })
	}
}

func (w *groupWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if w.operator {
		faults.Go(func() { w.deleteMembers(stop) })
	}
}

// deleteMembers is an operator that deletes members' znodes, which are created again.
func (w *groupWorld) deleteMembers(stop <-chan struct{}) {
	w.operate(2700, 5*time.Second, stop, func(r *rand.Rand, conn *zk.Conn) {
		if names := w.srv.Children(w.path()); len(names) > 0 && conn.Delete(w.path()+"/"+names[r.IntN(len(names))], -1) == nil {
			w.events.add("member deleted")
		}
	})
}

// unblock has nothing to do: a member that waits for another one with its id is there when
// that has left.
func (w *groupWorld) unblock() {}

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
	for path := range w.states {
		if all := w.history(path); all[len(all)-1] != noZnode {
			there[path] = all[len(all)-1]
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
