// Package semaphore has the slots of a Semaphore, and n. The package above checks what users
// give, traces, and wraps errors.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A slot is one of the n things that a semaphore gives out. The recipe: waiters stand in a line, and only the first in line watches the slots. So a
// departure wakes one waiter, and nobody overtakes, however many slots the first one
// waits for. If nobody waits, no place in line is needed; see enterFree. The protocol was
// model-checked (docs/models/semaphore.pml).
//
// On the wire, with n as the data of the path:
//
//	<path>/line                  the waiters; an ordinary line
//	<path>/slots/<slot>-<uuid>   a slot that is taken; ephemeral
//	<path>/resized               n was changed; keeps the path from being deleted
//
// The uuid is the acquisition's. So a deletion that is sent again never deletes the
// slot of the next holder, and a lease's check never passes for the next holder's.

// Semaphore is a semaphore.
type Semaphore struct {
	At   session.At
	Line *line.Line

	mu sync.Mutex
	n  int
	// agreed: n was the path's once, and follows it.
	agreed bool
	// Known is what is known without asking, see enterFree.
	Known *view
	// busy: others waited at the last acquisition.
	busy bool
}

// New returns the semaphore of n slots with that path.
func New(c *session.Client, path string, n int) *Semaphore {
	return &Semaphore{
		n:  n,
		At: session.At{Client: c, Path: path, Recipe: "semaphore"},
		Line: &line.Line{
			At: session.At{Client: c, Path: path + semaphoreLine, Recipe: "semaphore"}, Kinds: layout.LockKinds, RejoinsIfDeleted: true,
			Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind,
		},
	}
}

// Path returns the path as the caller gave it, and none for nil.
func (x *Semaphore) Path() string {
	if x == nil {
		return ""
	}
	return x.At.Path
}

func (x *Semaphore) Client() *session.Client { return x.At.Client }

// Acquire takes k slots. If there are too few, it waits for them or, if it must not wait,
// returns ErrLocked. CheckAcquire must come first.
func (x *Semaphore) Acquire(ctx context.Context, k int, wait bool) (*slotGrant, error) {
	ctx, done := x.At.Client.BindWait(ctx)
	defer done()
	for {
		g, err := x.enter(ctx, k, wait)
		if !wait && errors.Is(err, zkconn.ErrContended) {
			err = errs.ErrLocked
		}
		if !errors.Is(err, errSlotsLost) {
			return g, err
		}
	}
}

// enter acquires k slots: without a place in line if nobody waits, else at its turn. If
// others waited at the last acquisition, it does not ask whether they still do.
func (x *Semaphore) enter(ctx context.Context, k int, wait bool) (l *slotGrant, err error) {
	if !wait || !x.isBusy() || k > x.size() {
		attempts := zkconn.MaxTries
		if wait {
			attempts = maxStale
		}
		l, err = x.enterFree(ctx, k, attempts, !wait)
		if !wait || !errors.Is(err, errs.ErrLocked) && !errors.Is(err, zkconn.ErrContended) {
			return l, err
		}
	}
	err = x.Line.InTurn(ctx, layout.KindLock, func(p *line.Place) error {
		l, err = x.enterFirst(ctx, p, k, true)
		return err
	})
	return l, err
}

// CheckAcquire refuses what acquire cannot work with. It sends nothing.
func (x *Semaphore) CheckAcquire(ctx context.Context, k int) error {
	if x == nil {
		return errNotMade
	}
	if err := x.check(ctx, x.size()); err != nil {
		return err
	}
	return x.checkCount(k)
}

var errNotMade = errors.New("not made by NewSemaphore")

func (x *Semaphore) check(ctx context.Context, n int) error {
	if x == nil {
		return errNotMade
	}
	if err := x.At.Client.Check(ctx, x.At.Path); err != nil {
		return err
	}
	if n < 1 || n > math.MaxInt32 { // slots' numbers are an int32
		return fmt.Errorf("n is %d slots: must be from 1 to %d", n, math.MaxInt32)
	}
	return nil
}

// checkCount refuses a number of slots that nobody can have, and one for which a
// transaction has no room.
func (x *Semaphore) checkCount(k int) error {
	if k < 1 {
		return fmt.Errorf("k is %d slots: must be at least 1", k)
	}
	const other = 1024 // more than the transaction's other operations take, but for paths
	slot := zkconn.CreateSize(x.slotPath(k, layout.NewUUID()), []byte(x.At.Client.Identity), x.At.Client.ACL) + 16
	return zkconn.CheckSize(min(k, jute.MaxFrame)*slot+4*len(x.At.Abs())+other, x.At.Client.MaxBuffer)
}
