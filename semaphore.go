package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The recipe: waiters stand in a line, and only the first in line watches the slots. So a
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

// Semaphore has n slots, each of which has one holder at a time. It is fair by arrival:
// nobody overtakes a caller that waits, whether for one slot or for many. It is only a
// name: the holder has a SlotLease. Values are safe for concurrent use. Make one value and keep
// it: it remembers the slots and follows Resize, and a new value knows neither.
//
// The slots are numbered from 0. A new holder gets the lowest ones that its client knows
// to be free. While many clients take slots at the same time, it gets random ones, so that
// they do not take the same. A number is unique while it is held, so it can serve as the id
// of a worker; the lease's Token tells the holders of one number apart.
//
// The znode at the path holds n as decimal text, and each Semaphore must be made with
// that n. Resize changes it. Semaphores that were used before follow the change. One
// whose n differs at its first use gets ErrSize.
//
// A caller that holds slots may acquire more. Beware: callers that do so wait for each
// other for ever if all slots are taken. Take several slots at once with AcquireN instead.
//
// The client creates containers at the path and below. It deletes those below once it has not
// used them for half a minute. The servers delete idle ones, too, and the path, which holds n.
// The next use makes them anew. After Resize the path stays.
type Semaphore struct {
	line *line.Line // of the waiters
	held *line.Line // the path; its grants are of slots

	mu     sync.Mutex
	n      int
	agreed bool      // n was the path's once, and follows it
	known  *view     // what is known without asking, see enterFree; nil: nothing
	busy   bool      // others waited at the last acquisition
	crowd  time.Time // when others last took slots between a look and the taking
}

// NewSemaphore returns the semaphore of n slots with that path. It sends nothing. An
// invalid path and an n below 1 are reported on first use.
func NewSemaphore(c *Client, path string, n int) *Semaphore {
	return &Semaphore{
		n: n,
		line: &line.Line{
			Client: c.core(), Path: path + semaphoreLine, Recipe: "semaphore", Kinds: line.LockKinds, Rejoins: true, Writes: true,
			Blocks: line.EveryoneBlocks, Foreign: line.IsRWLockKind,
		},
		held: &line.Line{Client: c.core(), Path: path, Recipe: "semaphore"},
	}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (x *Semaphore) Path() string {
	if x == nil || x.held == nil {
		return ""
	}
	return x.held.Path
}

// Acquire waits for a slot; see AcquireN.
func (x *Semaphore) Acquire(ctx context.Context) (*SlotLease, error) { return x.AcquireN(ctx, 1) }

// AcquireN waits for its turn and until k slots are free, and takes them together. It
// waits through disconnections. If the session ends, it waits in the next one, at the end
// of the line.
//
//   - ctx's error is returned if ctx ended first. errors.Is finds it and its cause.
//   - ErrSize is returned if there are fewer than k slots: at once, or only at the caller's
//     turn if others wait and the Semaphore has not noticed a Resize yet. It is also
//     returned if the path holds another n than this Semaphore was made for.
//   - ErrEvicted is returned if somebody else deleted the call's znode in the line.
//   - ErrClosed is returned if the Client was closed.
//
// After an error nothing is held, or what was taken is given back in the background.
//
// Cost: one request and one commit if nobody has taken a slot or waited since this value took
// one, and four requests more otherwise. While many clients take slots at the same time, it
// costs two requests and one commit. If others take the same slots, or wait, the caller joins
// the line after three attempts. Release costs one of each. A caller that has to
// wait joins the line as with a Mutex. When it is first, it costs up to two requests, one
// more each time a slot is given back, and one request and one commit to enter. A release
// wakes the first in line only. When that enters, it wakes its successor.
func (x *Semaphore) AcquireN(ctx context.Context, k int) (*SlotLease, error) {
	return x.acquire(ctx, "acquire", k, true)
}

// TryAcquire is like Acquire but does not wait; see TryAcquireN.
func (x *Semaphore) TryAcquire(ctx context.Context) (*SlotLease, error) { return x.TryAcquireN(ctx, 1) }

// TryAcquireN is like AcquireN but does not wait: it returns ErrLocked if somebody waits, or
// if fewer than k slots are free. That costs three reads if too few are free, five at most,
// and leaves nothing behind. A holder that is just leaving may count, and so may a caller
// that is just joining the line. ErrLocked is also returned if others were quicker to take the same
// slots in each of 16 attempts, which is likely only if few are free.
// TryAcquireN blocks only for the servers' replies: while disconnected, until there is a
// connection again or ctx ends.
func (x *Semaphore) TryAcquireN(ctx context.Context, k int) (*SlotLease, error) {
	return x.acquire(ctx, "try acquire", k, false)
}

// Do runs f with one slot and then releases it, even if f panics. f's context is the
// lease's: it ends when the slot is lost. Do returns f's error, joined with ErrLost if
// the slot was lost before the end, even if f returned nil. See Mutex.Do for what ErrLost and
// nil mean.
func (x *Semaphore) Do(ctx context.Context, f func(context.Context, *SlotLease) error) error {
	if f == nil {
		return fail("acquire", x.Path(), errors.New("nil function"))
	}
	l, err := x.Acquire(ctx)
	if err != nil {
		return err
	}
	return l.lease.releaseAfter(func() error { return f(l.Context(ctx), l) })
}

func (x *Semaphore) acquire(ctx context.Context, op string, k int, wait bool) (*SlotLease, error) {
	if err := x.check(ctx, x.size()); err != nil {
		return nil, fail(op, x.Path(), err)
	}
	if err := x.checkCount(k); err != nil {
		return nil, fail(op, x.Path(), err)
	}
	ctx, traced := startAcquire(ctx, x.held.Client, RecipeSemaphore, x.Path(), op)
	ctx, done := x.held.Client.BindWait(ctx)
	defer done()
	for {
		l, err := x.enter(ctx, k, wait)
		if !wait && errors.Is(err, zkconn.ErrContended) {
			err = ErrLocked
		}
		switch {
		case errors.Is(err, queue.ErrLostAtOnce):
			continue
		case err != nil:
			err = fail(op, x.Path(), err)
			traced.end(nil, err)
			return nil, err
		}
		traced.end(l.lease.handle.Grant, nil)
		return l, nil
	}
}

// enter acquires k slots: without a place in line if nobody waits, else at its turn. If
// others waited at the last acquisition, it does not ask whether they still do.
func (x *Semaphore) enter(ctx context.Context, k int, wait bool) (l *SlotLease, err error) {
	if !wait || !x.isBusy() || k > x.size() {
		attempts := zkconn.MaxTries
		if wait {
			attempts = maxStale
		}
		l, err = x.enterFree(ctx, k, attempts, !wait)
		if !wait || !errors.Is(err, ErrLocked) && !errors.Is(err, zkconn.ErrContended) {
			return l, err
		}
	}
	err = x.line.InTurn(ctx, line.KindLock, nil, func(p *line.Place) error {
		l, err = x.enterFirst(ctx, p, k, true)
		return err
	})
	return l, err
}

func (x *Semaphore) check(ctx context.Context, n int) error {
	if x == nil || x.held == nil {
		return errors.New("not made by NewSemaphore")
	}
	if err := x.held.Client.Check(ctx, x.held.Path); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("a semaphore of %d slots", n)
	}
	return nil
}

// checkCount refuses a number of slots that nobody can have, and one for which a
// transaction has no room.
func (x *Semaphore) checkCount(k int) error {
	if k < 1 {
		return fmt.Errorf("%d slots requested", k)
	}
	const other = 4096 // more than the transaction's other operations take, but for paths
	slot := zkconn.CreateSize(x.slotPath(k, line.NewUUID(true)), []byte(x.held.Client.Identity), x.held.Client.Created) + 16
	if size := min(k, jute.MaxFrame)*slot + 4*len(x.held.Abs()) + other; size > jute.MaxFrame {
		return zkconn.TooLarge(size)
	}
	return nil
}
