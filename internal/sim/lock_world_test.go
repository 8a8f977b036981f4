package sim

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lockWorld is the workload of Mutex and RWLock: one or two locks, with an operator
// and other libraries' clients in their lines.
type lockWorld struct {
	*world
	lockRecipe
	foreignPrefixes []string // names of other libraries' places, without the number
	holds           *holds
	observer        *lineObserver
	delay           *delayJudge
	calling         map[string]*atomic.Int32 // how many workers acquire, by path

	mu   sync.Mutex
	uses map[string]*placeUses // by the path of the place
}

func newLockWorld(of lockRecipe) func(seed uint64) *world {
	return func(seed uint64) *world {
		sc, r := newScenario(seed)
		w := &lockWorld{
			world: &world{scenario: sc}, lockRecipe: of, delay: newDelayJudge(), uses: map[string]*placeUses{},
		}
		w.holds, w.holdEnded = newHolds(w.world, judge.Config{}), w.checkNotDeleted
		w.observer = newLineObserver(func(path string) {
			w.log.violation("%s was released, and could never hold", path)
		})
		w.paths = []string{"/app/locks/a", "/app/locks/b"}[:1+r.IntN(2)]
		w.calling = map[string]*atomic.Int32{}
		for _, path := range w.paths {
			w.calling[path] = &atomic.Int32{}
		}
		if r.IntN(4) == 0 {
			w.foreignPrefixes = of.foreignPlaces[r.IntN(len(of.foreignPlaces))]
		}
		if !w.nearLimit && r.IntN(6) == 0 {
			w.lastNumber = 1 + int32(r.IntN(8)) // a new line begins with 1
		}
		return w.with(w)
	}
}

func (w *lockWorld) onChange(c zktest.Change) {
	w.observer.onChange(c)
	w.delay.onChange(c)
	if !c.Deleted || !slices.Contains(w.paths, c.Path) {
		return
	}
	if number, ok := w.observer.newestNumber(c.Path, true); ok && w.isBeyondLimit(number) {
		w.events.add("line begins anew")
	}
	if w.calling[c.Path].Load() > 0 { // a line with places cannot be deleted
		w.events.add("line deleted under a join")
	}
}

func (w *lockWorld) isBeyondLimit(number int64) bool {
	return number < 0 || number > int64(w.lastNumber)
}

// begin creates the lines, and moves their sequence numbers close to the limit.
func (w *lockWorld) begin() {
	if !w.nearLimit {
		return
	}
	for i, path := range w.paths {
		called := w.log.tick()
		l, err := w.newLock(w.processes[0].current().c, path, w.stream(8000)).lock(w.ctx)
		if err == nil {
			w.uses[l.Check().Path] = &placeUses{called: called} // a kept place may be granted again
			err = l.Release()
		}
		if err != nil {
			w.log.violation("first use: %v", err)
		}
		w.jump(path, []int32{w.lastNumber - 3, math.MaxInt32 - 2}[i%2])
	}
}

// jump makes a line's next sequence number at.
func (w *lockWorld) jump(path string, at int32) {
	w.observer.countsFrom(path, int64(at))
	err := w.srv.SetCounter(path, at) // an error if the server has deleted the empty container
	w.log.note("counter of %s jumps to %d: %v", path, at, err)
	if err == nil {
		w.events.add("counter jumps")
	}
}

// runCounters moves the counters of lines that have begun anew close to the limit, or to
// the end, again and again. A counter never moves back.
func (w *lockWorld) runCounters(stop <-chan struct{}) {
	r := w.stream(7000)
	again(r, 4*time.Second, stop, func() {
		path := w.paths[r.IntN(len(w.paths))]
		at := []int32{w.lastNumber - int32(r.IntN(4)), math.MaxInt32 - int32(r.IntN(4))}[r.IntN(2)]
		if number, ok := w.observer.newestNumber(path, false); ok && number >= 0 && number < int64(w.lastNumber)/2 {
			w.jump(path, at)
		}
	})
}

func (w *lockWorld) faults() (all []fault) {
	for i, prefix := range w.foreignPrefixes {
		all = append(all, w.runForeignClient(i, prefix))
	}
	if w.nearLimit {
		all = append(all, w.runCounters)
	}
	if w.operator || w.setsData {
		all = append(all, w.runOperator)
	}
	return all
}

func (w *lockWorld) unblock() {}

func (w *lockWorld) checkAtRest() {
	for _, path := range w.paths {
		if left := placesAmong(w.srv.Children(path)); !w.delays || len(left) > 0 {
			w.checkEmpty(path)
		}
	}
	w.holds.check()
}

// checkGranted checks that a granted place was the first of its line at some moment,
// or a reader's with no writer ahead. It goes by the order of the server's changes,
// so that no clock is involved.
func (w *lockWorld) checkGranted(worker int, place string, reads bool) {
	s, ok := parsePlace(place[strings.LastIndexByte(place, '/')+1:])
	switch {
	case !ok || s.reader != reads:
		w.log.violation("worker %d was granted %s, a place of another kind", worker, place)
	case !w.observer.couldHold(place):
		w.log.violation("worker %d was granted %s, which could never hold", worker, place)
	case w.isBeyondLimit(s.number):
		w.log.violation("worker %d was granted %s, a number beyond the limit", worker, place)
	}
}

// checkNotDeleted checks that a lease ends by a deletion only in worlds that have an
// operator to delete places, or in which the server may expire the session of a live
// client: that client may see the deletion before the expiry.
func (w *lockWorld) checkNotDeleted(err error) {
	switch {
	case err == nil || !strings.Contains(err.Error(), textDeleted):
	case w.forcedExpiry:
		w.events.add("lease ended by a deletion")
	default:
		w.log.violation("a place was deleted, and here no operator deletes places: %v", err)
	}
}
