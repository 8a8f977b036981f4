package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/shards"
)

// The recipe: each process is a member of a Group and tells there which shards it has. All compute
// from that the same plan (internal/shards, plan.go). A process stands in the line of the Mutex of
// each shard that the plan gives it, and lets go of those that it takes away. So a wrong or an old
// plan costs time, and no shard ever has two owners. The number of shards is the data of the path.
// Whoever works holds a read lock of an RWLock, and a Resize the write lock.

// Shards distributes n shards, such as the partitions of a table, among the processes that call
// Serve. One process at a time works on each shard. Values are safe for concurrent use.
//
// The shards are distributed evenly. A process that joins takes its share from the others, and no
// other shard moves. The shards of a process that has left go to the others, which keep those that
// they have. There is no coordinator: each process computes the same plan.
//
// As with a Mutex, the shard's Token fences the writes of its process. After its process has died,
// a shard has no owner for up to a session timeout. After the process has stopped, it has none for
// about a tenth of a second and three round trips.
//
// The path holds the number of shards, and each Shards must be made with that number. Resize changes
// it. A Shards that has served or resized follows later changes. For any other, Serve returns ErrSize
// if n differs. The path and the znodes below are containers. After a Resize, the path is permanent.
//
// Each shard that a process has, or waits for, is a znode of its Client's session, whose size is
// bounded (ErrSessionFull): with short paths, there is room for nearly 12,000. Serve logs that there is
// no room for a shard, and tries again.
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
	// Settle is how long no process must have joined or left before a process gives a shard to
	// another one, so that a rolling restart does not move shards each time. Where processes come
	// and go all the time, it gives shards after ten times that. A shard without an owner is taken
	// at once. Default 5 s, at most 10 years.
	Settle time.Duration
	// Member is the process's id, as for MemberID. Default: Options.Identity and a random text.
	// While another process has the id, Serve waits, and the Logger gets a warning after a session
	// timeout and Settle. Within one Client, Serve returns zk.ErrNodeExists.
	Member string
}

// maxSettle is far below the longest Duration, of which nothing can be a multiple.
const maxSettle = 10 * 365 * 24 * time.Hour

// ErrMoved is the cause of a shard function's context when the shard is to go to another process, or
// the number of shards is about to change.
var ErrMoved = errors.New("shard goes to another process")

// NewShards returns the n shards with that path. It sends nothing. An invalid path and invalid options
// are reported on first use. Serve needs an n from 1 to 100,000. The other calls work with any n, such
// as 0 if it is not known.
func NewShards(c *Client, path string, n int, opts *ShardsOptions) *Shards {
	x := &Shards{c: c.core(), client: c, path: path, n: n}
	if opts != nil {
		x.opts = *opts
	}
	if x.opts.Settle < 0 {
		x.invalid = fmt.Errorf("ShardsOptions.Settle must not be negative: %v", x.opts.Settle)
	} else if id := x.opts.Member; id != "" {
		if err := group.CheckID(id); err != nil {
			x.invalid = fmt.Errorf("ShardsOptions.Member: %w", err)
		}
	}
	x.opts.Settle = min(cmp.Or(x.opts.Settle, 5*time.Second), maxSettle)
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
	if x == nil || x.opts.Settle == 0 { // NewShards gives it one
		return errors.New("not made by NewShards")
	}
	if err := x.c.Check(ctx, x.path); err != nil {
		return err
	}
	return x.invalid
}

// fail says which call has failed. An error of the group or of a lock below the path is its cause.
func (x *Shards) fail(op string, err error) error {
	if inner, ok := err.(*Error); ok {
		err = fmt.Errorf("%s %s: %w", inner.Op, inner.Path, inner.Err)
	}
	return fail(op, x.Path(), err)
}

// checkShards refuses a number of shards that there cannot be.
func checkShards(n int) error {
	if n < 1 || n > shards.Max {
		return fmt.Errorf("n is %d shards: must be from 1 to %d", n, shards.Max)
	}
	return nil
}

func (x *Shards) group() *Group     { return NewGroup(x.client, x.path+"/members") }
func (x *Shards) sizeLock() *RWLock { return NewRWLock(x.client, x.path+"/size") }
func (x *Shards) lock(number int) *Mutex {
	return NewMutex(x.client, fmt.Sprintf("%s/shard-%05d", x.path, number))
}

// Shard is a shard that this process works on. It is safe for concurrent use.
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
func (s *Shard) Number() int {
	if s == nil {
		return 0
	}
	return s.number
}

// Count returns how many shards there are. It does not change while this process has the shard.
func (s *Shard) Count() int {
	if s == nil {
		return 0
	}
	return s.n
}

// Path returns the path of the shard's lock, without Options.Prefix. It does not depend on the Count.
func (s *Shard) Path() string { return s.held().Path() }

// Token returns the fencing token. It grows with each owner of the shard with this Number, also when
// the Count changes. See Token.
func (s *Shard) Token() Token { return s.held().Token() }

// Err returns nil while this process has the shard, and from then on why it has not. See Lease.Err.
func (s *Shard) Err() error { return s.held().Err() }

// ValidUntil returns the time until which this process is known to have the shard if the servers send
// nothing more. See Lease.ValidUntil.
func (s *Shard) ValidUntil() time.Time { return s.held().ValidUntil() }

// Context returns a context that ends with parent or with the shard's lease. See Lease.Context.
func (s *Shard) Context(parent context.Context) context.Context { return s.held().Context(parent) }

// Commit carries out the operations in one transaction, and only if this process still has the
// shard. See Lease.Commit.
func (s *Shard) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return s.held().Commit(ctx, ops...)
}

// Get reads a znode on the session that has the shard, and no older state of it than when this process
// got the shard. See Lease.Get.
func (s *Shard) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return s.held().Get(ctx, path)
}

// Children is like Get but lists a znode's children.
func (s *Shard) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return s.held().Children(ctx, path)
}

// Check returns the guard that Commit puts before its operations. See Lease.Check.
func (s *Shard) Check() *zk.CheckVersionRequest { return s.held().Check() }

// Serve works on this process's shards until ctx ends: it calls f for each of them, in a goroutine of
// its own. f's context ends with ctx, when the shard is lost (ErrLost), when it is to go to another
// process (ErrMoved), and when the Client is shut down (ErrClosed). Then f should return. Serve gives
// the shard up after f has returned, not before: while f does not return, Owners marks the shard, and
// the Logger gets a warning every ten seconds. f should write by Shard.Commit or with Shard.Token.
//
// If f returns before its context has ended, Serve logs f's error, if there is one, gives the shard
// up, and takes it again after a pause. The pause is a second at first, doubles each time, and is half
// a minute at most. Other shards go on meanwhile. A call that f makes with its context, such as a
// Lock of the same shard's path, is one of the holder's (ErrDeadlock). If f ends its goroutine
// (runtime.Goexit), that counts as an error. A panic in f ends the process, after its shard was released.
//
// If the session expires, all shards are lost. Serve goes on in the next session, and takes a shard
// again when the f that has lost it has returned. Another process may take it before that. Serve goes on
// with the other shards, even if the number of shards has changed meanwhile: only the Token fences an f
// that works on.
//
// When ctx has ended, Serve leaves, so that other processes can wait for its shards, and returns nil
// when each f has returned. It returns ErrClosed after a Shutdown or Close, ErrSize if the path holds
// another number of shards, ErrPathInUse if it holds other data, and an error of the servers, such as
// zk.ErrNoAuth, if they refuse the path.
//
// Cost: about 20 requests to begin. For each shard that moves, those of a Mutex.Lock, and at most two
// updates of members, each of which every process reads. While nothing changes, none. For each
// process, the servers keep two znodes, a watch on each member and two more, and a znode and a watch
// for each of its shards.
func (x *Shards) Serve(ctx context.Context, f func(context.Context, *Shard) error) error {
	const op = "serve shards of"
	err := x.check(ctx)
	if err == nil {
		err = checkShards(x.size())
	}
	if err == nil && f == nil {
		err = errors.New("nil function")
	}
	if err == nil && !x.c.Held.Begin() {
		err = ErrClosed
	}
	if err != nil {
		return x.fail(op, err)
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
	defer sv.drain(context.WithoutCancel(ctx)) // of what a lost session has left
	defer sv.leave(ctx)
	for {
		err := sv.serveSize(working)
		switch {
		case ctx.Err() != nil:
			return nil
		case working.Err() != nil:
			return x.fail(op, ErrClosed)
		case err != nil:
			return x.fail(op, err)
		}
	}
}

// Owner is the owner of a shard, as Owners returns it.
type Owner struct {
	Shard  int
	Member string // the id of the process
	Leaves bool   // the process is to give the shard up, or has lost it, and its function has not returned
}

// Owners returns the owners of the shards, in the order of the shards, as the processes report them.
// A shard without an owner is left out. One that changes hands may have two entries for a moment, or
// until a function that has lost it returns: only a Commit proves which process has it. A
// process that has left Serve's group, since its ctx has ended, has no entries. Owners blocks until a
// server has answered. Cost: two requests, and one for each process.
func (x *Shards) Owners(ctx context.Context) ([]Owner, error) {
	if err := x.check(ctx); err != nil {
		return nil, x.fail("list owners of", err)
	}
	ms, err := x.group().Members(ctx)
	return owners(ms), x.fail("list owners of", err)
}

// Watch yields the owners, and then again after each change. Blocking, errors and cost are those of
// Group.Watch.
func (x *Shards) Watch(ctx context.Context) iter.Seq2[[]Owner, error] {
	return func(yield func([]Owner, error) bool) {
		if err := x.check(ctx); err != nil {
			yield(nil, x.fail("watch owners of", err))
			return
		}
		for ms, err := range x.group().Watch(ctx) {
			if !yield(owners(ms), x.fail("watch owners of", err)) {
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

// Resize changes the number of shards to n, for this Shards and for all that have served or resized.
// All processes first give up their shards (ErrMoved), so that nobody works on a shard of the new
// number while another process works on one of the old number. So Resize blocks until each function
// has returned, and a shard that was given up has no owner until then. If ctx ends first, its error
// is returned, and ErrClosed from a Shutdown on, and the processes that serve carry out the change all
// the same. So look for Leaves in Owners before, and end a process whose function hangs. Owners has no
// process whose ctx has ended: those that Resize waits for are the Contenders that are Held of the RWLock
// at the path's child "size". Several calls run one after the other. Resize creates the child "resized",
// so that the servers do not delete the path when it is idle: the new number remains until the next
// Resize, or until somebody deletes the path.
//
// ErrUncertain is returned if the reply to the write is lost and ctx ends. ErrPathInUse is returned
// if the path holds other data, and ErrDeadlock in a function that Serve has called, with its
// context. Resize costs about 15 requests, and each process what it costs to begin.
func (x *Shards) Resize(ctx context.Context, n int) error {
	err := x.check(ctx)
	if err == nil {
		err = checkShards(n)
	}
	if err == nil { // or it would wait for the function whose context this is
		err = x.sizeLock().self().checkDeadlock(ctx)
	}
	if err == nil { // behind a server that lags, it would find an older number, and be done
		err = x.client.ping(ctx)
	}
	if err == nil {
		err = x.resize(ctx, n)
	}
	if err == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.n, x.agreed = n, true
	}
	return x.fail("resize", err)
}

func (x *Shards) resize(ctx context.Context, n int) error {
	var turn *Lease // calls change the number one after the other, or they could do so for ever
	defer func() {
		if turn != nil {
			_ = turn.releaseWithin(ctx, turn.Release)
		}
	}()
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
			if err = x.keepPath(ctx); err == nil {
				return nil
			}
		case turn == nil:
			turn, err = NewMutex(x.client, x.path+"/resize").Lock(ctx)
		case size.Next == n:
			err = x.finishResize(ctx)
		default:
			_, err = x.client.Commit(ctx, OpSet(x.path, shards.Size{N: size.N, Next: n}.Bytes(), stat.Version))
		}
		if err != nil && (!isOvertaken(err) || ctx.Err() != nil && errors.Is(err, ErrUncertain)) {
			return err
		}
	}
}

// keepPath creates the child that keeps the servers from deleting the path.
func (x *Shards) keepPath(ctx context.Context) error {
	_, err := x.client.Exists(ctx, x.path+shardsResized)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = x.client.Commit(ctx, OpCreate(x.path+shardsResized, nil, 0, nil))
	}
	return err
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
