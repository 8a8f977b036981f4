package sim

import (
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// semaphoreWorld is the workload of Semaphore.
type semaphoreWorld struct {
	*waitWorld
	observer *slotObserver
	resizes  bool          // workers change n
	idles    bool          // the workers pause together, so that the paths may be reaped
	crowded  bool          // there are many slots, and the workers take some all the time
	pause    time.Duration // for how long a worker rests between its calls, at most

	idleUntil time.Time
	holds     *holds
}

var semaphoreEvents = []string{
	"canceled at a step", "acquired at once", "acquired in turn", "acquired several", "locked", "canceled", "evicted", "too many",
	"lost", "resized", "larger", "smaller", "path remade", "member deleted", "place deleted", "place written to", "committed", "held together", "given back", "path deleted",
}

func newSemaphoreWorld(seed uint64) *world {
	g, r := newWaitWorld(seed, fixed(
		"multi(create,check,setData)", "multi(create,create,check,setData)",
		"multi(create,check,setData,delete)", "multi(create,create,check,setData,delete)",
		"multi(create,setData)", "multi(setData,delete)", "setData",
		"delete", "multi(delete,delete)", "multi(create,check,setData)", "delete",
		"getData", "getChildren2", "sync", "multi(createContainer,create,delete)",
	), "/app/semaphores/a", "/app/semaphores/b")
	w := &semaphoreWorld{waitWorld: g, pause: 2 * time.Second}
	w.observer, w.lags = newSlotObserver(g), true
	w.resizes = r.IntN(4) == 0
	remade := w.operator && r.IntN(2) == 0
	w.idles = r.IntN(3) == 0
	if w.crowded = r.IntN(3) == 0; w.crowded {
		w.latency, w.pause = 20*time.Millisecond, 50*time.Millisecond
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
	w.operated(w.evictMembers("/slots"), w.disturbLines(6*time.Second, "/line"))
	if remade {
		w.operated(w.remakePaths(sizeData))
	}
	return w.with(w)
}

func (w *semaphoreWorld) begin() {
	w.waitWorld.begin()
	w.idleUntil = time.Now().Add(time.Minute)
}

func (w *semaphoreWorld) onChange(c zktest.Change) {
	w.observer.onChange(c)
	if strings.HasPrefix(c.Path, "/app/semaphores/") {
		w.faultAtStep(c)
	}
}

func (w *semaphoreWorld) checkAtRest() {
	w.observer.settle(-1)
	for _, path := range w.paths {
		time.Sleep(time.Second)
		w.checkEmpty(path + "/slots")
		w.checkEmpty(path + "/line")
	}
	w.holds.check()
}
