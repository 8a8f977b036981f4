package recipetest

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/layout"
)

// Locker is the common interface of Mutex and of either side of an RWLock.
type Locker interface {
	Lock(context.Context) (*zkrecipes.Lease, error)
	TryLock(context.Context) (*zkrecipes.Lease, error)
	Do(context.Context, func(context.Context, *zkrecipes.Lease) error) error
	Contenders(context.Context) ([]zkrecipes.Contender, error)
}

// Reading is the read side of an RWLock.
type Reading struct{ *zkrecipes.RWLock }

func (w Reading) Lock(ctx context.Context) (*zkrecipes.Lease, error) { return w.RLock(ctx) }

func (w Reading) TryLock(ctx context.Context) (*zkrecipes.Lease, error) { return w.TryRLock(ctx) }

func (w Reading) Do(ctx context.Context, f func(context.Context, *zkrecipes.Lease) error) error {
	return w.RDo(ctx, f)
}

func Mutex(c *zkrecipes.Client, path string) Locker { return zkrecipes.NewMutex(c, path) }

func Writer(c *zkrecipes.Client, path string) Locker { return zkrecipes.NewRWLock(c, path) }

func Reader(c *zkrecipes.Client, path string) Locker { return Reading{zkrecipes.NewRWLock(c, path)} }

// Side is a way to hold a lock, with a rival that it excludes. Most tests of locks
// run once for each side.
type Side struct {
	Name    string
	Ours    func(*zkrecipes.Client, string) Locker
	Theirs  func(*zkrecipes.Client, string) Locker // the rival: it excludes ours and is excluded by it
	Kind    layout.Kind                            // of the places of ours
	Release string                                 // the request that releases ours
	Freed   string                                 // the request that releases the rival
	By      string                                 // another library's name prefix for a place like the rival's
}

var Sides = []Side{
	{"mutex", Mutex, Mutex, layout.KindLock, OpRelease, OpRelease, "lock-"},
	{"writer", Writer, Writer, layout.KindWrite, OpRelease, OpRelease, "_c_" + CuratorUUID(0) + "-__WRIT__"},
	{"writer behind a reader", Writer, Reader, layout.KindWrite, OpRelease, OpReadRelease, "_c_" + CuratorUUID(0) + "-__READ__"},
	{"reader", Reader, Writer, layout.KindRead, OpReadRelease, OpRelease, "_c_" + CuratorUUID(0) + "-__WRIT__"},
}

// Signalled reports whether a rival signals its successor when it releases.
func (s Side) Signalled() bool { return s.Freed == OpRelease }
