package zkrecipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: a caller takes free slots by creating their znodes, in one transaction that fails if
// others were quicker. If somebody waits, or too few are free, it stands in a line, as for a Mutex,
// and takes its slots at its turn (internal/semaphore, enter.go and slots.go).

// Semaphore has n slots, each of which has one holder at a time. It is fair by arrival: nobody
// overtakes a caller that waits, whether for one slot or for many. Values are safe for concurrent
// use. Make one value and keep it: it remembers the slots and follows Resize, and a new value knows
// neither.
//
// The slots are numbered from 0. A new holder gets the lowest ones that its client knows
// to be free. A number is unique while it is held, so it can serve as the id of a worker; the
// lease's Token tells the holders of one number apart.
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
type Semaphore struct{ slotted *semaphore.Semaphore } // nil: the zero Semaphore

// NewSemaphore returns the semaphore of n slots with that path. It sends nothing. An
// invalid path, an n below 1 and one above 2^31-1 are reported on first use. Size, Contenders
// and Resize work with any n, such as 0 if it is not known.
func NewSemaphore(c *Client, path string, n int) *Semaphore {
	return &Semaphore{semaphore.New(c.core(), path, n)}
}

// self returns what carries out the calls, nil unless x was made by NewSemaphore.
func (x *Semaphore) self() *semaphore.Semaphore {
	if x == nil {
		return nil
	}
	return x.slotted
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (x *Semaphore) Path() string { return x.self().Path() }

// Acquire waits for a slot; see AcquireN.
func (x *Semaphore) Acquire(ctx context.Context) (*SlotLease, error) { return x.AcquireN(ctx, 1) }

// AcquireN waits for its turn and until k slots are free, and takes them together. It waits through
// disconnections and the end of the session, like Mutex.Lock.
//
//   - ctx's error is returned if ctx ended first. errors.Is finds it and its cause.
//   - ErrSize is returned if there are fewer than k slots: at once, or only at the caller's
//     turn if others wait and the Semaphore has not noticed a Resize yet. It is also
//     returned if the path holds another n than this Semaphore was made for.
//   - ErrTooLarge is returned at once, in place of ErrSize, too, if one request has no room
//     for k slots, of which it has room for some thousands.
//   - ErrEvicted is returned if somebody else deleted the call's znode in the line.
//   - ErrClosed is returned if the Client was closed.
//
// After an error nothing is held, or what was taken is given back in the background.
//
// Cost: one request and one commit if nobody has taken a slot or waited since this value took
// one, and four requests and one commit more otherwise. If others take slots at the same time, the
// caller joins the line after four attempts. Release costs one of each. A caller that has to wait joins the
// line as with a Mutex. When it is first, it costs up to two requests, one more each time a slot
// is given back, and one request and one commit to enter. A release wakes the first in line
// only. When that enters, it wakes its successor.
func (x *Semaphore) AcquireN(ctx context.Context, k int) (*SlotLease, error) {
	return x.acquire(ctx, "acquire", k, true)
}

// TryAcquire is like Acquire but does not wait; see TryAcquireN.
func (x *Semaphore) TryAcquire(ctx context.Context) (*SlotLease, error) { return x.TryAcquireN(ctx, 1) }

// TryAcquireN is like AcquireN but does not wait: it returns ErrLocked if somebody waits, or if
// fewer than k slots are free. That costs three reads if too few are free, five at most, and leaves
// nothing behind. A holder that is just leaving may count, and so may a caller that is just joining
// the line. ErrLocked is also returned if others were quicker to take the same slots in each of 16
// attempts, which is likely only if few are free. TryAcquireN blocks like Mutex.TryLock.
func (x *Semaphore) TryAcquireN(ctx context.Context, k int) (*SlotLease, error) {
	return x.acquire(ctx, "try acquire", k, false)
}

// Do runs f with one slot, like Mutex.Do.
func (x *Semaphore) Do(ctx context.Context, f func(context.Context, *SlotLease) error) error {
	if f == nil {
		return fail("acquire", x.Path(), errors.New("nil function"))
	}
	l, err := x.Acquire(ctx)
	if err != nil {
		return err
	}
	return l.lease.releaseAfter(ctx, func() error { return f(l.Context(ctx), l) })
}

func (x *Semaphore) acquire(ctx context.Context, op string, k int, wait bool) (*SlotLease, error) {
	slots := x.self()
	if err := slots.CheckAcquire(ctx, k); err != nil {
		return nil, fail(op, x.Path(), err)
	}
	ctx, traced := startAcquire(ctx, slots.Client(), RecipeSemaphore, x.Path(), op)
	g, err := slots.Acquire(ctx, k, wait)
	if err != nil {
		err = fail(op, x.Path(), err)
		traced.end(nil, err)
		return nil, err
	}
	traced.end(g.Handle.Grant, nil)
	return &SlotLease{newLease(g.Handle), g.Numbers}, nil
}

// Resize changes n, for this Semaphore and for all that were used before. If n grows, the first
// waiter wakes. If n shrinks, nobody loses a slot: nobody gets one while n or more are held. A
// waiter that wants more than n gets ErrSize at its turn.
//
// The new n lasts until it is changed again or somebody deletes the path: Resize creates the
// child resized, so that the servers do not delete the path when it is idle.
//
// Resize blocks until a server answers. ErrUncertain is returned if ctx ends before the
// reply comes, or, with the servers' error or ErrContended, if a later attempt fails after
// one whose reply was lost. If calls are concurrent, any may be the last. Resize costs three
// requests and one commit. If the path does not exist, it costs two requests and one commit
// more.
func (x *Semaphore) Resize(ctx context.Context, n int) error {
	return fail("resize", x.Path(), x.self().Resize(ctx, n))
}

// looks returns what carries out the calls that only look, for which n does not matter.
func (x *Semaphore) looks() recipe {
	slots := x.self()
	if slots == nil {
		return recipe{}
	}
	return recipe{At: slots.At}
}

// Size returns how many slots there are: the number that the path holds, whatever n this
// Semaphore was made for. It blocks until a server answers, which may lag behind a Resize.
// ErrUnused is returned if there is no semaphore, and ErrPathInUse if the path is another
// recipe's. A number that a barrier or somebody else has written looks the same. Cost: one
// request.
func (x *Semaphore) Size(ctx context.Context) (n int, err error) {
	err = x.looks().inSessions(ctx, "look at", func(ctx context.Context, s *session.Session, path string) error {
		n, err = layout.SizeAt(ctx, s.Session, path, x.slotted.At.Recipe, "slots")
		return err
	})
	return n, err
}

// Contenders returns the holders, once for each slot, in the order of the slots, and then the
// waiters in the order of the line. How many slots a waiter wants is not known. Client.Evict
// takes a slot from its holder, whose lease is lost with all its slots.
//
// Contenders blocks and fails like Mutex.Contenders. Someone who enters meanwhile may be missing or
// be listed twice, and so may a slot that two clients have just taken at the same time, until the
// second gives it back. Cost: two requests, one more if no slot was taken for a while, and one for
// each slot that is taken and each waiter.
func (x *Semaphore) Contenders(ctx context.Context) ([]Contender, error) {
	return x.looks().listContenders(ctx, func(ctx context.Context, s *session.Session) ([]look.Contender, error) {
		return look.Slots(ctx, s, x.slotted)
	})
}

// SlotLease is a grant of slots of a Semaphore to one holder. See Lease for what is best effort and
// what is proof. If one slot is lost, the lease is lost, and the client gives the others back.
type SlotLease struct {
	lease *Lease
	slots []int
}

func (l *SlotLease) held() *Lease {
	if l == nil {
		return nil
	}
	return l.lease
}

// Context returns a context that ends with parent or with the lease. See Lease.Context.
func (l *SlotLease) Context(parent context.Context) context.Context { return l.held().Context(parent) }

// Err returns nil while the lease lasts, and from then on why it has ended. See Lease.Err.
func (l *SlotLease) Err() error { return l.held().Err() }

// ValidUntil returns the time until which the lease is known to last if the servers send
// nothing more. See Lease.ValidUntil.
func (l *SlotLease) ValidUntil() time.Time { return l.held().ValidUntil() }

// Token returns the fencing token of the slots. It grows with every holder of each of them. So
// compare it per slot: the tokens of holders of other slots grow beside it.
func (l *SlotLease) Token() Token { return l.held().Token() }

// Commit carries out the operations in one transaction, and only if all the slots are still
// held. See Lease.Commit.
func (l *SlotLease) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return l.held().Commit(ctx, ops...)
}

// Checks returns the guards that Commit puts before its operations, one for each slot, in their
// order. Use all of them in a Multi on another connection. See Lease.Check.
func (l *SlotLease) Checks() []*zk.CheckVersionRequest { return l.held().checks() }

// Get reads a znode on the session that holds the slots. See Lease.Get.
func (l *SlotLease) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return l.held().Get(ctx, path)
}

// Children is like Get but lists a znode's children.
func (l *SlotLease) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return l.held().Children(ctx, path)
}

// Path returns the path of the Semaphore as the caller gave it, without Options.Prefix.
func (l *SlotLease) Path() string { return l.held().Path() }

// Release gives the slots back. It blocks, fails and can be repeated like Lease.Release. It costs
// one request and one commit.
func (l *SlotLease) Release() error { return l.held().Release() }

// Slot returns the number of the slot, the lowest one if there are several, and -1 for a
// zero SlotLease.
func (l *SlotLease) Slot() int {
	if l == nil || len(l.slots) == 0 {
		return -1
	}
	return l.slots[0]
}

// Slots returns the numbers of the slots, in order.
func (l *SlotLease) Slots() []int {
	if l == nil {
		return nil
	}
	return slices.Clone(l.slots)
}
