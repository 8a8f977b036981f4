package sim

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
)

// recipe is what a world is about.
type recipe struct {
	of      func(*zkrecipes.Client, string) lock
	others  [][]string // other libraries' places that may stand in its lines
	befalls []string   // what must happen in a few hundred runs, beside the plans' faults
}

// lock is what can be done with one. A mutex has no readers.
type lock struct {
	path            string
	lock, tryLock   way
	rlock, tryRLock way
	downgrade       func(context.Context, *zkrecipes.Lease) error
}

type way func(context.Context) (*zkrecipes.Lease, error)

const (
	curatorsMutex  = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-"
	curatorsWriter = "_c_1f2e3d4c-5b6a-4789-8abc-def012345678-__WRIT__"
	curatorsReader = "_c_2f3e4d5c-5b6a-4789-8abc-def012345678-__READ__"
	goZookeepers   = "_c_0123456789abcdeffedcba9876543210-lock-"
	kazoosLock     = "fedcba98765432100123456789abcdef__lock__" // and its writer
	kazoosReader   = "fedcba98765432100123456789abcdef__rlock__"
)

var befalls = []string{"partition", "client asleep", "place deleted", "signal forged", "foreign place"}

var mutex = recipe{
	of: func(c *zkrecipes.Client, path string) lock {
		m := zkrecipes.NewMutex(c, path)
		return lock{path: path, lock: m.Lock, tryLock: m.TryLock}
	},
	others: [][]string{
		{curatorsMutex}, {goZookeepers}, {kazoosLock}, {kazoosReader},
		{kazoosLock, "_c_1f2e3d4c-5b6a-4789-lock-"},
	},
	befalls: befalls,
}

var rwLock = recipe{
	of: func(c *zkrecipes.Client, path string) lock {
		m := zkrecipes.NewRWLock(c, path)
		return lock{path, m.Lock, m.TryLock, m.RLock, m.TryRLock, m.Downgrade}
	},
	others: [][]string{
		{curatorsWriter}, {curatorsReader}, {curatorsWriter, curatorsReader},
		{kazoosLock}, {kazoosReader}, {kazoosLock, curatorsWriter, "no-place-"},
	},
	befalls: append([]string{
		"readers together", "downgrade", "downgrade left", "downgrade left, and carried out",
		"downgrade of a lost lease", "downgrade beside a release", "foreign downgrade",
	}, befalls...),
}
