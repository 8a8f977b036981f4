package sim

import (
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const lockDelay = 3 * time.Second

// All workers' Mutexes have a lock delay.
var delayedMutexRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string, _ *rand.Rand) anyLock {
		m := zkrecipes.NewMutex(c, path, zkrecipes.LockDelay(lockDelay))
		return anyLock{path: path, lock: m.Lock, tryLock: m.TryLock}
	},
	foreignPlaces: foreignMutexPlaces,
	mustSee: []string{
		"holder went without a release", "granted after a lock delay", "granted at once after a release",
		"partition", "client paused", "place deleted", "place written to", "foreign place", "line begins anew", "counter jumps",
	},
	delays: true,
}

// delayJudge checks that nothing is granted for a while after a holder that went without a
// release. It judges by the transactions that the server applies: a release deletes the znode that
// names the holder together with the place.
type delayJudge struct {
	mu      sync.Mutex
	granted map[string]bool     // places that a worker was granted
	gone    map[string]departed // by line: the last of them that went
}

type departed struct {
	zxid     int64
	at       time.Time
	released bool
}

func newDelayJudge() *delayJudge {
	return &delayJudge{granted: map[string]bool{}, gone: map[string]departed{}}
}

func (j *delayJudge) onChange(c zktest.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	path, name := path.Split(c.Path)
	path = strings.TrimSuffix(path, "/")
	last, ok := j.gone[path]
	switch {
	case ok && c.Deleted && name == line.HeldName && c.Zxid == last.zxid:
		last.released = true
		j.gone[path] = last
	case c.Deleted && j.granted[c.Path]:
		j.gone[path] = departed{zxid: c.Zxid, at: time.Now()}
	}
}

// onGrant is called when a worker was granted a place that stands.
func (j *delayJudge) onGrant(w *lockWorld, worker int, line, place string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.gone[line]
	delete(j.gone, line)
	j.granted[place] = true
	since := time.Since(last.at)
	switch {
	case !ok:
	case last.released:
		if since < lockDelay/10 {
			w.events.add("granted at once after a release")
		}
	case since < lockDelay:
		w.log.violation("%s: worker %d is granted %s only %v after the last holder went without a release", line, worker, place, since)
	default:
		w.events.add("holder went without a release")
		if since < 2*lockDelay {
			w.events.add("granted after a lock delay")
		}
	}
}
