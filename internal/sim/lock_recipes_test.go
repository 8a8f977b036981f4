package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// lockRecipe is a recipe that a lockWorld can run.
type lockRecipe struct {
	newLock       func(c *zkrecipes.Client, path string, r *rand.Rand) anyLock
	foreignPlaces [][]string // names of other libraries' places, for a world to pick from
	mustSee       []string   // events that must happen in a few hundred runs
	delays        bool       // grants have a lock delay
}

// anyLock is a Mutex or an RWLock. The functions for readers are nil for a Mutex.
type anyLock struct {
	path            string
	lock, tryLock   lockFunc
	rlock, tryRLock lockFunc
	keepFor         time.Duration // 0: it is not kept
}

type lockFunc func(context.Context) (*zkrecipes.Lease, error)

const (
	curatorsMutex  = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-"
	curatorsWriter = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-__WRIT__"
	curatorsReader = "_c_2f3e4d5c-5b6a-4789-8abc-def012345678-__READ__"
	goZookeepers   = "_c_0123456789abcdeffedcba9876543210-lock-"
	kazoosLock     = "fedcba98765432100123456789abcdef__lock__" // also what its write lock uses
	kazoosReader   = "fedcba98765432100123456789abcdef__rlock__"
	noPlace        = "no-place-" // keeps a line from being deleted
)

var lockFaultEvents = []string{"partition", "client paused", "place deleted", "lease ended by a deletion", "place written to", "place deleted unheard", "foreign place", "line begins anew", "line deleted under a join", "counter jumps"}

var mutexRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string, _ *rand.Rand) anyLock {
		m := zkrecipes.NewMutex(c, path)
		return anyLock{path: path, lock: m.Lock, tryLock: m.TryLock}
	},
	foreignPlaces: foreignMutexPlaces,
	mustSee:       lockFaultEvents,
}

var foreignMutexPlaces = [][]string{
	{curatorsMutex}, {goZookeepers}, {kazoosLock}, {kazoosReader},
	{kazoosLock, "_c_1f2e3d4c-5b6a-4789-lock-"},
}

// Most holders let their process keep the lock, for times that differ.
var keptMutexRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string, r *rand.Rand) anyLock {
		d := []time.Duration{0, 10 * time.Millisecond, time.Second, 5 * time.Second, 5 * time.Second}[r.IntN(5)]
		m := zkrecipes.NewMutex(c, path)
		if d > 0 {
			m = zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(d))
		}
		return anyLock{path: path, lock: m.Lock, tryLock: m.TryLock, keepFor: d}
	},
	foreignPlaces: foreignMutexPlaces,
	mustSee:       append([]string{"kept lock taken again", "kept lock left", "commit beside a release"}, lockFaultEvents...),
}

var rwLockRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string, _ *rand.Rand) anyLock {
		m := zkrecipes.NewRWLock(c, path)
		return anyLock{path: path, lock: m.Lock, tryLock: m.TryLock, rlock: m.RLock, tryRLock: m.TryRLock}
	},
	foreignPlaces: [][]string{
		{curatorsWriter}, {curatorsReader}, {curatorsWriter, curatorsReader},
		{kazoosLock}, {kazoosReader}, {kazoosLock, curatorsWriter, noPlace},
	},
	mustSee: append([]string{
		"readers together", "downgrade", "downgrade canceled", "downgrade canceled, but done",
		"downgrade of a lost lease", "downgrade beside a release", "foreign downgrade",
	}, lockFaultEvents...),
}
