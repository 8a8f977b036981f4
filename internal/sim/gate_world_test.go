package sim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// gateWorld is a world of gates.
type gateWorld struct {
	*waitWorld

	mu    sync.Mutex
	flips map[string][]int64 // the moments at which a gate was shut, opened, shut..
}

var gateEvents = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step",
	"shut", "opened", "waited", "waited at a shut gate", "cancelled", "seen open", "seen shut", "uncertain", "touched",
}

func newGateWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(int) []string {
		return []string{"multi(create)", "multi(delete)", "getData", "exists", "sync"}
	}, "/app/gates/a", "/app/gates/b")
	w := &gateWorld{waitWorld: g, flips: map[string][]int64{}}
	w.workload = w
	return w.world
}

// applied is zktest.OnChange's.
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

// was reports whether a gate was open, or shut, at a moment from one to another.
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

func (w *gateWorld) startFaults(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.waitWorld.startFaults(weather, calm)
	if w.operator {
		weather.Go(func() { w.touchGates(calm) })
	}
}

// touch writes to gates, which opens none.
func (w *gateWorld) touchGates(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.rawConn()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(3 * time.Second)))):
		case <-calm:
			return
		}
		if _, err := conn.Set(w.paths[r.IntN(len(w.paths))], []byte("touched"), -1); err == nil {
			w.events.add("touched")
		}
	}
}

// settle opens the gates, once all who are left wait at shut ones.
func (w *gateWorld) unblock() {
	if !w.allStuck() {
		return
	}
	conn, done := w.rawConn()
	defer done()
	for _, path := range w.paths {
		w.log.note("everybody waits; %s is opened: %v", path, conn.Delete(path, -1))
	}
}

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
