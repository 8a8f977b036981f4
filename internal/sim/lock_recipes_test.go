package sim

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
)

// recipe is what a world is about.
type lockRecipe struct {
	newLock       func(*zkrecipes.Client, string) anyLock
	foreignPlaces [][]string // other libraries' places that may stand in its lines
	mustSee       []string   // what must happen in a few hundred runs, beside the plans' faults
}

// lock is what can be done with one. A mutex has no readers.
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
	kazoosLock     = "fedcba98765432100123456789abcdef__lock__" // and its writer
	kazoosReader   = "fedcba98765432100123456789abcdef__rlock__"
)

var lockFaultEvents = []string{"partition", "client asleep", "place deleted", "signal forged", "foreign place"}

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
		"readers together", "downgrade", "downgrade left", "downgrade left, and carried out",
		"downgrade of a lost lease", "downgrade beside a release", "foreign downgrade",
	}, lockFaultEvents...),
}
