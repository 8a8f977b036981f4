package sim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// gateWorld is the workload of Gate.
type gateWorld struct {
	*waitWorld

	mu    sync.Mutex
	flips map[string][]int64 // logical times at which a gate was shut, opened, shut.., by path
}

var gateEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step",
	"shut", "opened", "waited", "waited at a shut gate", "canceled", "seen open", "seen shut", "uncertain", "written to",
}

func newGateWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(int) []string {
		return []string{"create2", "delete", "getData", "exists", "sync"}
	}, "/app/gates/a", "/app/gates/b")
	w := &gateWorld{waitWorld: g, flips: map[string][]int64{}}
	w.workload = w
	return w.world
}

func (w *gateWorld) onChange(c zktest.Change) {
	if w.sizes[c.Path] == 0 {
		return
	}
	if c.Created || c.Deleted {
		w.mu.Lock()
		w.flips[c.Path] = append(w.flips[c.Path], w.log.tick())
		w.mu.Unlock()
	}
	w.faultAtStep(c)
}

// everOpen reports whether a gate was ever open, or ever shut if open is false,
// between two logical times.
func (w *gateWorld) everOpen(open bool, path string, from, to int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := true
	for _, moment := range w.flips[path] {
		if moment > to {
			break
		}
		if moment > from && state == open {
			return true
		}
		state = !state
	}
	return state == open
}

func (w *gateWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if w.operator {
		faults.Go(func() { w.touchGates(stop) })
	}
}

// touchGates is an operator that writes to the znodes of gates, which opens none.
func (w *gateWorld) touchGates(stop <-chan struct{}) {
	w.operate(2000, 3*time.Second, stop, func(r *rand.Rand, conn *zk.Conn) {
		if _, err := conn.Set(w.paths[r.IntN(len(w.paths))], []byte("touched"), -1); err == nil {
			w.events.add("written to")
		}
	})
}

// unblock opens the gates if every worker that is not done waits at a shut one.
func (w *gateWorld) unblock() {
	if !w.allStuck() {
		return
	}
	conn, done := w.rawConn()
	defer done()
	for _, path := range w.paths {
		w.log.note("all workers wait; open %s: %v", path, conn.Delete(path, -1))
	}
}

// allStuck reports whether every worker that is not done waits at a shut gate, and
// if so lets workers begin no further calls.
func (w *gateWorld) allStuck() bool {
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	now := w.log.tick()
	for s := range w.pending {
		if len(w.pending) < w.working || w.everOpen(true, s.path, now, now) {
			return false
		}
	}
	w.stopping = w.working > 0
	return w.stopping
}

func (w *gateWorld) checkAtRest() {
	for _, path := range w.paths {
		parent := path[:strings.LastIndexByte(path, '/')]
		if left := w.srv.Children(parent); len(left) > len(w.paths) {
			w.log.violation("%s: left behind: %v", parent, left)
		}
	}
}
