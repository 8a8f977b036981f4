package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/shards"
)

// The recipe: each process is a member of a Group and tells there which shards it has. All compute
// from that the same plan (internal/shards, plan.go). A process stands in the line of the Mutex of
// each shard that the plan gives it, and lets go of those that it takes away. So a wrong or an old
// plan costs time, and no shard ever has two owners. The number of shards is the data of the path.
// Whoever works holds a read lock of an RWLock, and a Resize the write lock.

// Shards shares out work among the processes that are there: each of n shards, such as the parts of
// a table, is worked on by one process at a time. It is only a name. Values are safe for concurrent
// use.
//
// The shards are shared out evenly. A process that comes takes its share from the others, whose
// other shards stay; what a process had that has gone is taken by the others, who keep what they
// have. There is no process that decides.
//
// At most one process works on a shard, as with a Mutex, and the shard's Token fences its writes. A
// shard is without an owner for as long as a session timeout after its process has died, and for
// about a tenth of a second and three round trips after it has stopped.
//
// The path holds the number of shards, and each Shards must be made with it. Resize changes it.
// Those that were used before follow the change; one whose n differs at its first use gets ErrSize.
// The path and what is below are containers, except after a Resize: then the path stays.
type Shards struct {
	c       *session.Client
	client  *Client
	path    string
	opts    ShardsOptions
	invalid error

	mu     sync.Mutex
	n      int
	agreed bool // the path has held n
}

// ShardsOptions are the options of NewShards. nil is the same as the zero value.
type ShardsOptions struct {
	// Settle is for how long the same processes must have been there before one of them gives a
	// shard to another one. So a rolling restart does not move all shards each time that a process
	// comes back. A shard that nobody has is taken at once. Default 5 s.
	Settle time.Duration
	// Member is the process's id, as for MemberID. By default it is Options.Identity and a random
	// text.
	Member string
}

// ErrMoved is the cause with which the context of a shard's function ends if another process is to
// work on the shard, or if the number of shards is about to change.
var ErrMoved = errors.New("shard goes to another process")

// NewShards returns the n shards with that path. It sends nothing. An invalid path, an n below 1 or
// above 100,000, and invalid options are reported on first use.
func NewShards(c *Client, path string, n int, opts *ShardsOptions) *Shards {
	x := &Shards{c: c.core(), client: c, path: path, n: n}
	if opts != nil {
		x.opts = *opts
	}
	switch {
	case n < 1 || n > shards.Max:
		x.invalid = fmt.Errorf("%w: %d shards", ErrSize, n)
	case x.opts.Settle < 0:
		x.invalid = fmt.Errorf("ShardsOptions.Settle must not be negative: %v", x.opts.Settle)
	}
	if x.opts.Settle == 0 {
		x.opts.Settle = 5 * time.Second
	}
	return x
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (x *Shards) Path() string {
	if x == nil {
		return ""
	}
	return x.path
}

func (x *Shards) check(ctx context.Context) error {
	if x == nil || x.c == nil {
		return errors.New("not made by its constructor (NewShards)")
	}
	if err := x.c.Check(ctx, x.path); err != nil {
		return err
	}
	return x.invalid
}

func (x *Shards) group() *Group     { return NewGroup(x.client, x.path+"/members") }
func (x *Shards) sizeLock() *RWLock { return NewRWLock(x.client, x.path+"/size") }
func (x *Shards) lock(number int) *Mutex {
	return NewMutex(x.client, fmt.Sprintf("%s/shard-%05d", x.path, number))
}

// Shard is a shard that this process works on. It is safe for concurrent use. The methods of a zero
// Shard return an error, like those of a zero Lease.
type Shard struct {
	lease     *Lease
	number, n int
}

func (s *Shard) held() *Lease {
	if s == nil {
		return nil
	}
	return s.lease
}

// Number returns which shard it is, from 0.
func (s *Shard) Number() int { return s.number }

// Count returns how many shards there are. It does not change while this process has the shard.
func (s *Shard) Count() int { return s.n }

// Path returns the path of the shard's lock, without Options.Prefix. It is the same for a Number
// whatever the Count.
func (s *Shard) Path() string { return s.held().Path() }

// Token returns the fencing token. It grows with each owner of the shard, whatever the Count. See
// Token.
func (s *Shard) Token() Token { return s.held().Token() }

// Err returns nil while this process has the shard, and from then on why it has not. See Lease.Err.
func (s *Shard) Err() error { return s.held().Err() }

// Context returns a context that ends with parent or with the shard's lease. See Lease.Context.
func (s *Shard) Context(parent context.Context) context.Context { return s.held().Context(parent) }

// Commit carries out the operations in one transaction, and only if this process still has the
// shard. See Lease.Commit.
func (s *Shard) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return s.held().Commit(ctx, ops...)
}

// Check returns the guard that Commit puts before its operations. See Lease.Check.
func (s *Shard) Check() *zk.CheckVersionRequest { return s.held().Check() }

// Serve works on the shards that this process is to have, until ctx ends: it calls f for each of
// them, in a goroutine of its own. f's context ends with ctx, when the shard is lost (ErrLost), when
// it is to go to another process (ErrMoved), and when the Client is shut down (ErrClosed). Then f
// should return. The shard is given up once it has, and not before: an f that does not return keeps
// its shard, Owners says so, and the Logger gets a warning every ten seconds. f should write by
// Shard.Commit or with Shard.Token.
//
// If f returns while its context lives, Serve gives the shard up, logs f's error if there is one,
// and takes the shard again after a pause: a second at first, twice as long each time, and half a
// minute at most. Other shards go on meanwhile. A call that f has made with its context, such as a
// Lock of the same shard, counts as one of the holder's.
//
// Serve goes on through disconnections and in the next session. Once ctx has ended, it leaves, so
// that others stand in line for its shards, and returns nil when each f has returned. ErrClosed is
// returned after a Shutdown or Close, ErrSize if the path holds another number of shards,
// ErrPathInUse if it is something else's, and an error of the servers, such as zk.ErrNoAuth, if
// they refuse the path.
//
// Cost: to begin, about 20 requests. For each shard that moves, those of a Mutex.Lock, and at most two
// updates of members, of each of which every process learns by one read. If nothing changes, none. For
// each process, the servers keep two znodes, a watch on each member and two more, and a znode and a
// watch for each of its shards.
func (x *Shards) Serve(ctx context.Context, f func(context.Context, *Shard) error) error {
	err := x.check(ctx)
	if err == nil && f == nil {
		err = errors.New("nil function")
	}
	if err != nil {
		return fail("serve shards of", x.Path(), err)
	}
	if !x.c.Held.Begin() {
		return fail("serve shards of", x.path, ErrClosed)
	}
	defer x.c.Held.End()
	// f may pass its context to other Clients, so it must not end as if they were closed.
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(x.c.Waiting, func() { end(ErrClosed) })()
	sv := &shardServer{
		Shards: x, f: f, works: map[int]*shardWork{},
		wake: make(chan struct{}, 1), tell: make(chan struct{}, 1),
	}
	defer sv.drain() // of what a lost session has left
	defer sv.leave(ctx)
	for {
		err := sv.serveSize(working)
		switch {
		case ctx.Err() != nil:
			return nil
		case working.Err() != nil:
			return fail("serve shards of", x.path, ErrClosed)
		case err != nil:
			return fail("serve shards of", x.path, err)
		}
	}
}

// Owner is what Owners says of a shard.
type Owner struct {
	Shard  int
	Member string // the id of the process in the group
	// Leaves: the process is to give it up, and its function has not returned.
	Leaves bool
}

// Owners returns who has which shard, as the members tell, in the order of the shards. A shard
// without an owner is left out, and one that changes hands may be there twice for a moment: the
// proof is a Commit. It blocks until a server has answered. Cost: two requests, and one for each
// member.
func (x *Shards) Owners(ctx context.Context) ([]Owner, error) {
	if err := x.check(ctx); err != nil {
		return nil, fail("list owners of", x.Path(), err)
	}
	ms, err := x.group().Members(ctx)
	return owners(ms), err
}

// Watch yields the owners, and then again after each change, as Group.Watch does the members.
func (x *Shards) Watch(ctx context.Context) iter.Seq2[[]Owner, error] {
	return func(yield func([]Owner, error) bool) {
		if err := x.check(ctx); err != nil {
			yield(nil, fail("watch owners of", x.Path(), err))
			return
		}
		for ms, err := range x.group().Watch(ctx) {
			if !yield(owners(ms), err) {
				return
			}
		}
	}
}

func owners(ms []Member) (all []Owner) {
	for _, m := range ms {
		claims, _ := shards.ParseClaims(m.Data)
		for _, shard := range claims.Held {
			all = append(all, Owner{shard, m.ID, false})
		}
		for _, shard := range claims.Leaving {
			all = append(all, Owner{shard, m.ID, true})
		}
	}
	slices.SortStableFunc(all, func(a, b Owner) int { return a.Shard - b.Shard })
	return all
}

// Resize changes the number of shards to n, for this Shards and for all that were used before. All
// processes first let go of their shards (ErrMoved): no shard of the old number is worked on any
// more when one of the new number is. So Resize blocks until each function has returned. If ctx ends
// before, its error is returned; processes that serve carry the change out all the same. The new
// number lasts until it is changed again or somebody deletes the path: Resize creates the child
// resized, so that the servers do not delete the path when it is idle.
//
// ErrUncertain is returned if the reply to the write is lost and ctx ends. It costs about eight
// requests, and each process what it costs to begin.
func (x *Shards) Resize(ctx context.Context, n int) error {
	err := x.check(ctx)
	if err == nil && (n < 1 || n > shards.Max) {
		err = fmt.Errorf("%w: %d shards", ErrSize, n)
	}
	if err == nil {
		err = x.resize(ctx, n)
	}
	if err == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.n, x.agreed = n, true
	}
	return fail("resize", x.Path(), err)
}

func (x *Shards) resize(ctx context.Context, n int) error {
	for {
		data, stat, err := x.client.Get(ctx, x.path)
		size, ok := shards.ParseSize(data)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && len(data) == 0:
			err = x.sizeLock().RDo(ctx, func(ctx context.Context, l *Lease) error { // which makes the path
				return x.writeFirst(ctx, l, n)
			})
		case err != nil:
		case !ok:
			return errNoShards(data)
		case size == shards.Size{N: n}:
			_, err = x.client.Exists(ctx, x.path+shardsResized)
			if errors.Is(err, zk.ErrNoNode) {
				_, err = x.client.Commit(ctx, OpCreate(x.path+shardsResized, nil, 0, nil))
			}
			if err == nil {
				return nil
			}
		case size.Next == n:
			err = x.finishResize(ctx)
		default:
			_, err = x.client.Commit(ctx, OpSet(x.path, shards.Size{N: size.N, Next: n}.Bytes(), stat.Version))
		}
		if err != nil && (ctx.Err() != nil || !isOvertaken(err)) {
			return err
		}
	}
}

// isOvertaken reports whether another process may have been quicker, or nobody knows. The path may
// have been deleted.
func isOvertaken(err error) bool {
	for _, e := range []error{zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNoNode, ErrUncertain, ErrLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// shardsResized is the child of a path whose number of shards was changed.
const shardsResized = "/resized"

func errNoShards(data []byte) error {
	return fmt.Errorf("%w: path does not hold a number of shards: %.40q", ErrPathInUse, data)
}

func (x *Shards) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.n
}

// writeFirst makes a path that holds no number of shards hold n. Nobody works yet.
func (x *Shards) writeFirst(ctx context.Context, l *Lease, n int) error {
	data, stat, err := l.Get(ctx, x.path)
	if err != nil || len(data) > 0 {
		return err
	}
	_, err = l.Commit(ctx, OpSet(x.path, shards.Size{N: n}.Bytes(), stat.Version))
	return err
}

var errResized = errors.New("another process was quicker")

// finishResize waits until nobody works, and writes the number to which the number of shards is about
// to change, unless somebody else does. A writer that waits keeps new readers out, so it must not
// wait for readers that came after the change.
func (x *Shards) finishResize(ctx context.Context) error {
	waiting, end := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer end(nil)
	watcher.Go(func() {
		for node, err := range x.client.Watch(waiting, x.path) {
			if size, ok := shards.ParseSize(node.Data); err == nil && ok && size.Next == 0 {
				end(errResized)
				return
			}
		}
	})
	l, err := x.sizeLock().Lock(waiting)
	switch {
	case errors.Is(err, errResized) && ctx.Err() == nil:
		return nil
	case err != nil:
		return err
	}
	return l.releaseAfter(ctx, func() error {
		data, stat, err := l.Get(ctx, x.path)
		size, ok := shards.ParseSize(data)
		if err != nil || !ok || size.Next == 0 {
			return err
		}
		_, err = l.Commit(ctx, OpSet(x.path, shards.Size{N: size.Next}.Bytes(), stat.Version))
		return err
	})
}
