package sim

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// semaphoreWorld is the workload of Semaphore.
type semaphoreWorld struct {
	*waitWorld
	observer *slotObserver
	resizes  bool // workers change n
	remade   bool // the operator deletes whole paths
	idles    bool // the workers pause together, so that the paths may be reaped
	crowded  bool // there are many slots, and the workers take some all the time

	idleUntil time.Time
	holds     *holds
}

var semaphoreEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step",
	"acquired at once", "acquired in turn", "acquired several", "locked", "canceled", "evicted", "too many",
	"lost", "resized", "larger", "smaller", "path remade", "member deleted", "place deleted", "place written to", "committed", "held together", "given back", "path deleted",
}

func newSemaphoreWorld(seed uint64) *world {
	shapes := func(ops ...string) string { return "multi(" + strings.Join(ops, ",") + ")" }
	g, r := newWaitWorld(seed, func(int) []string {
		return []string{
			shapes("create", "check", "setData"), shapes("create", "create", "check", "setData"),
			shapes("create", "check", "setData", "delete"), shapes("create", "create", "check", "setData", "delete"),
			shapes("create", "setData"), shapes("setData", "delete"), "setData",
			"delete", shapes("delete", "delete"), shapes("create", "check", "setData"), "delete",
			"getData", "getChildren2", "sync", "multi(createContainer,create,delete)",
		}
	}, "/app/semaphores/a", "/app/semaphores/b")
	w := &semaphoreWorld{waitWorld: g}
	w.workload, w.observer = w, newSlotObserver(g)
	w.nearLimit = false
	w.resizes = r.IntN(4) == 0
	w.remade = w.operator && r.IntN(2) == 0
	w.idles = r.IntN(3) == 0
	if w.crowded = r.IntN(3) == 0; w.crowded {
		w.latency = 20 * time.Millisecond
		w.rounds *= 3
		for path := range w.sizes {
			w.sizes[path] += 8
		}
	}
	var cfg judge.Config
	if !w.resizes && !w.operator {
		cfg.Slots = w.sizes
	}
	w.holds = newHolds(w.world, cfg)
	return w.world
}

func (w *semaphoreWorld) begin() {
	w.waitWorld.begin()
	w.lagBehind()
	w.idleUntil = time.Now().Add(time.Minute)
}

func (w *semaphoreWorld) onChange(c zktest.Change) {
	w.observer.onChange(c)
	if strings.HasPrefix(c.Path, "/app/semaphores/") {
		w.faultAtStep(c)
	}
}

func (w *semaphoreWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if !w.operator {
		return
	}
	faults.Go(func() { w.evictMembers(stop, "/slots") })
	faults.Go(func() { w.disturbLines(stop, 6*time.Second, "/line") })
	if w.remade {
		faults.Go(func() { w.remakePaths(stop, func(n int) []byte { return []byte(strconv.Itoa(n)) }) })
	}
}

// unblock does nothing: every waiter gets its slots once those that are held are given
// back, or else a wake-up was lost.
func (w *semaphoreWorld) unblock() {}

func (w *semaphoreWorld) checkAtRest() {
	w.observer.settle(-1)
	for _, path := range w.paths {
		time.Sleep(time.Second)
		w.checkEmpty(path + "/slots")
		w.checkEmpty(path + "/line")
	}
	w.holds.check()
}
