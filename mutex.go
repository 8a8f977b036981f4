package zkrecipes

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: each place in the line waits for the one ahead of it, and the first place holds
// (line.EveryoneBlocks). Re-entry is in sequence.go, for all locks. The rest is in packages
// below: internal/line joins (join.go), waits (wait.go), finds out about lost replies (lostjoin.go)
// and leaves (leave.go), internal/hold has what is held, and internal/keep keeps the place for the
// next caller.

// Mutex is an exclusive lock, fair by arrival. It is only a name: the holder has a
// Lease. Values are safe for concurrent use, and goroutines that share one exclude
// each other.
//
// Curator's InterProcessMutex, go-zookeeper's Lock and kazoo's Lock on the same path
// stand in the same line. kazoo needs Lock(..., extra_lock_patterns=["lock-"]).
// (Curator and kazoo do not see each other, with a Mutex or without.)
//
// The client creates the path as a container znode, and deletes it with its data once it has
// not used it for half a minute. If the client is gone, the servers do. So do not keep data
// there. If the path has data already, Lock and TryLock return ErrPathInUse.
type Mutex struct {
	line    *line.Line
	keep    *keep.Lock
	maxHold time.Duration

	invalid error
}

// NewMutex returns the lock with that path. The options are KeepFor, LockDelay and MaxHold.
// NewMutex sends nothing. An invalid path or option is reported on first use.
func NewMutex(c *Client, path string, opts ...MutexOption) *Mutex {
	m := &Mutex{line: &line.Line{
		At:          session.At{Client: c.core(), Path: path, Recipe: string(RecipeMutex)},
		AlsoAccepts: string(RecipeRWLock), Kinds: layout.LockKinds,
		Blocks: line.EveryoneBlocks, Foreign: layout.IsRWLockKind,
	}}
	d, err := timesOf(opts)
	if keepFor, ok := d["KeepFor"]; ok {
		m.keep = keep.New(m.line, keepFor)
	}
	m.line.Delay, m.maxHold, m.invalid = d["LockDelay"], d["MaxHold"], err
	return m
}

// MutexOption is an option of NewMutex (KeepFor, LockDelay, MaxHold) and of NewElection (LockDelay,
// MaxHold). The zero value does nothing. A duration that is not positive, and an option that is
// given twice, are reported on first use.
type MutexOption struct {
	name string // of the function that has returned it
	d    time.Duration
}

// KeepFor lets the process keep the lock for up to d after a release, if nobody else is in the
// line. Use it for a lock that is mostly taken again by the process that held it last. If that
// happens within d, Lock and TryLock return at once and send nothing. As soon as another session
// joins the line, the process leaves a kept lock that nobody holds. It never keeps the lock without
// a holder for longer than d. So even if an event is lost, another session waits no longer than 2d
// and the holds.
//
// The callers of one Client on one path share a place in the line, and wait for it in
// the process, first come, first served. If another session joins while one of them
// holds a lock that was kept before, the callers that were waiting before go first, as a
// rule, and those that come later go behind the other session. If others are in the line
// when the lock is granted, it is left after one hold. So under contention turns go round
// among processes, not among callers. If a call cannot take a place, because somebody
// deleted it, for example, all callers that wait for it return the error.
//
// Each hold has a Token of its own. After 256 holds the place is left and taken anew. The lock
// is not kept once the line's sequence numbers are near their end: callers that wait for the
// line to begin anew do not stand in it.
//
// What to know:
//   - Lease.Check proves that the process holds the lock, even after the lease was
//     released. Lease.Commit proves that the lease does.
//   - A lock that is taken again was granted without asking the servers. So it is best
//     effort, like Lease.Err: if somebody deleted the place, or the server is cut off, only
//     Commit and the Token protect your data.
//   - Release may return nil although the lock was lost before, because it sends nothing.
//   - A TryLock in another session returns ErrLocked while the lock is kept, and does not
//     make the process leave it. Lock does.
//   - Contenders shows a kept lock as held.
//   - A Mutex without KeepFor, even of the same Client, takes places of its own, like
//     another session. If Mutexes of one Client have different d, that of the last
//     holder counts.
//
// Cost: the first release that may keep the lock sends two small reads, one after the other,
// instead of the deletion. A lock that is in use for longer than d is confirmed by one read
// every d. While others are in the line, each hold costs one small read more than without
// KeepFor.
func KeepFor(d time.Duration) MutexOption { return MutexOption{"KeepFor", d} }

// Path returns the path as the caller gave it, without Options.Prefix.
func (m *Mutex) Path() string { return m.self().Path }

// Lock waits for its turn and returns the lease. It waits through disconnections. If the
// session ends, it waits in the next one, at the end of the line. With a Reentrant context of
// the holder it re-enters at once and at no cost (Lease.Reentrant).
//
// If ctx ends, Lock returns an error in which errors.Is finds the error of ctx and its cause.
// ErrClosed is returned if the Client is closed. ErrEvicted is returned if somebody else deletes
// the call's znode. ErrDeadlock is returned if ctx is any other context of the holder. Any other
// error, such as ErrPathInUse, ErrSessionFull or zk.ErrNoAuth, says why the path cannot be used
// now. For ErrUncertain, see there. After an error nothing is held, and the znode is deleted or
// will be.
//
// Cost: one request and one commit if the lock is free. If it is not, four more
// requests, in one round trip if the line is long and in two if it is short, none while
// waiting, and none between the holder's release and the grant. Before ZooKeeper 3.9, the
// client lists the line there. Three more if the place right ahead in a long line was another
// library's, or its client gave up. With KeepFor, none if the process keeps the lock.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.self().acquire(ctx, "lock", layout.KindLock)
}

// TryLock is like Lock but does not wait: it returns ErrLocked if somebody else is in
// the line, which costs one or two small reads, seldom a listing of a long line, and leaves
// nothing behind. A holder that is just leaving may count. TryLock blocks only for the
// servers' replies. While disconnected, that is until there is a connection again or ctx ends.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.self().tryAcquire(ctx, "try lock", layout.KindLock)
}

// Do runs f with the lock and then releases it, even if f panics. f's context is the
// lease's: it ends when the lock is lost. Do returns f's error, joined with ErrLost
// if the lock was lost before the end, even if f returned nil. If the Client was closed
// while f ran, the error is joined with ErrClosed instead. If the lock could not be taken,
// f does not run, and Do returns the error of Lock. Once ctx has ended, Do waits for the servers'
// answer to the release for a tenth of a second at most: the lock is then released in the
// background.
//
// So ErrLost alone does not say how far f got. f may have returned ErrLost itself, because its
// Commit was refused, or it may have succeeded, and the loss was noticed by the release. nil
// is no proof that the lock was held to the end: a Commit in f, or a store that checks the
// Token, is.
func (m *Mutex) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return m.self().withLease(ctx, "lock", layout.KindLock, f)
}

// Contenders returns the places in the line, in order. The first one holds. ErrUnused is
// returned if there is no line, and ErrPathInUse if the path is another recipe's. An idle line
// is deleted after half a minute or so. Contenders blocks until the servers answer. It costs
// two requests for the line and one for each place.
func (m *Mutex) Contenders(ctx context.Context) ([]Contender, error) {
	return m.self().listPlaces(ctx)
}

func (m *Mutex) self() lock {
	if m == nil {
		return lock{}
	}
	return lockOn(m.line, m.keep, m.maxHold, m.invalid)
}

// LockDelay delays the next grant by d if the last holder went without a release: its session
// ended, by Client.Close, too, or somebody deleted its znode. Use it where a lock protects
// something that can check neither a Token nor a Commit. A holder that was suspended then has d to
// notice that it has lost the lock, before anybody else holds it. It is no proof: a holder may be
// suspended for longer. A release delays nothing.
//
// d is counted from when a call of Lock or TryLock first sees that the holder has gone, whatever
// becomes of that call. The call that is next in line waits for the rest as a waiter does: others
// queue behind it, and the Trace says that it is queued. TryLock returns ErrLocked instead.
//
// What to know:
//   - All Mutexes of a path must have it. Others, and other libraries' clients, neither wait for a
//     delay nor cause one. With KeepFor, those of a Client share the one that was used first.
//   - While the lock is held or delayed, a persistent znode stands beside the places, and its data
//     name the holder's place. If somebody deletes it, the delay is over, or never begins.
//   - Times are the servers'. If their clocks disagree or are set, a delay is as much shorter.
//   - A grant can be delayed although the last holder has released: if its session ended before
//     the servers had carried out the release, or a waiter's did right when it was granted. With
//     KeepFor, they carry it out when the process leaves the lock. Client.Shutdown leaves it,
//     Client.Close does not.
//   - Contenders shows a waiter in the delay as Held. Reentrant calls are not delayed.
//
// Cost: one request and one commit more before each grant.
func LockDelay(d time.Duration) MutexOption { return MutexOption{"LockDelay", d} }

// MaxHold bounds how long a lock is held: d after a grant, the client gives the lock up by itself.
// The lease and its contexts end with ErrLost, whose cause is ErrMaxHold, and whoever is next
// holds. A process that hangs, and whose heartbeats go on, is the one failure that the end of a
// session does not see.
//
// The holder may not know, because it hangs. So it must write by Lease.Commit or with the Token, or
// what it does must not matter any more after d; LockDelay gives it some more time. d counts from
// the grant, re-entries share it, and with KeepFor each hold has its own d. Each client bounds its
// own holds.
//
// It costs no request.
func MaxHold(d time.Duration) MutexOption { return MutexOption{"MaxHold", d} }

// timesOf returns the times of the options by their names, or why they are invalid.
func timesOf(opts []MutexOption) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, opt := range opts {
		_, again := times[opt.name]
		switch {
		case opt == MutexOption{}:
		case opt.d <= 0:
			return nil, fmt.Errorf("%s must be positive: %v", opt.name, opt.d)
		case again:
			return nil, fmt.Errorf("%s is given more than once", opt.name)
		default:
			times[opt.name] = opt.d
		}
	}
	return times, nil
}
