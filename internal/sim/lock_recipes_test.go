package sim

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
)

// lockRecipe is a recipe that a lockWorld can run.
type lockRecipe struct {
	newLock       func(*zkrecipes.Client, string) anyLock
	foreignPlaces [][]string // names of other libraries' places, for a world to pick from
	mustSee       []string   // events that must happen in a few hundred runs
}

// anyLock is a Mutex or an RWLock. The functions for readers are nil for a Mutex.
type anyLock struct {
	path            string
	lock, tryLock   lockFunc
	rlock, tryRLock lockFunc
	downgrade       func(context.Context, *zkrecipes.Lease) error
}

type lockFunc func(context.Context) (*zkrecipes.Lease, error)

const (
	curatorsMutex  = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-"
	curatorsWriter = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-__WRIT__"
	curatorsReader = "_c_2f3e4d5c-5b6a-4789-8abc-def012345678-__READ__"
	goZookeepers   = "_c_0123456789abcdeffedcba9876543210-lock-"
	kazoosLock     = "fedcba98765432100123456789abcdef__lock__" // also what its write lock uses
	kazoosReader   = "fedcba98765432100123456789abcdef__rlock__"
)

var lockFaultEvents = []string{"partition", "client paused", "place deleted", "lease ended by a deletion", "place written to", "foreign place"}

var mutexRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string) anyLock {
		m := zkrecipes.NewMutex(c, path)
		return anyLock{path: path, lock: m.Lock, tryLock: m.TryLock}
	},
	foreignPlaces: [][]string{
		{curatorsMutex}, {goZookeepers}, {kazoosLock}, {kazoosReader},
		{kazoosLock, "_c_1f2e3d4c-5b6a-4789-lock-"},
	},
	mustSee: lockFaultEvents,
}

var rwLockRecipe = lockRecipe{
	newLock: func(c *zkrecipes.Client, path string) anyLock {
		m := zkrecipes.NewRWLock(c, path)
		return anyLock{path, m.Lock, m.TryLock, m.RLock, m.TryRLock, m.Downgrade}
	},
	foreignPlaces: [][]string{
		{curatorsWriter}, {curatorsReader}, {curatorsWriter, curatorsReader},
		{kazoosLock}, {kazoosReader}, {kazoosLock, curatorsWriter, "no-place-"},
	},
	mustSee: append([]string{
		"readers together", "downgrade", "downgrade canceled", "downgrade canceled, but done",
		"downgrade of a lost lease", "downgrade beside a release", "foreign downgrade",
	}, lockFaultEvents...),
}
