package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// Node is what Client.Watch yields: a znode, or none.
type Node struct {
	Data []byte
	Stat *zk.Stat // nil: there is no znode
}

// None reports whether there is no znode.
func (n Node) None() bool { return n.Stat == nil }

// Children is what Client.WatchChildren yields: the children of a znode, or that there is no
// znode.
type Children struct {
	Names []string // in lexical order
	Stat  *zk.Stat // of the znode; nil: there is none
}

// None reports whether there is no znode.
func (c Children) None() bool { return c.Stat == nil }

// Watch yields what a znode is, and then what it has become after each change of its data,
// its creation and its deletion. That there is no znode is a state like others: see Node.None.
// The Stat is that of the moment of the last such change or later. Changes of children, or
// of the ACL, yield nothing.
//
// The first state is no older than the call. From then on Watch never yields a state that is
// older than one before, although the Client's server may lag behind the others. The last
// state is yielded in the end. If the servers have lost transactions, it yields what they have
// gone back to. States between may be skipped: a slow reader gets the latest
// one. Watch goes on through disconnections, during which nothing is yielded, and in the next
// session. What is yielded belongs to the caller.
//
// Watch ends with an error that is yielded with the zero Node:
//   - the error of ctx, once that has ended.
//   - ErrClosed, if the Client was closed. A Shutdown does not end it before.
//   - ErrInvalidPath, zk.ErrNoAuth or another error of the servers, if it cannot go on. Servers
//     may send a client no event about a znode that it may not read. Then a znode that is
//     created so is none until the next session.
//   - an error that says so, if what the servers report is older than what was yielded, for as
//     long as a session timeout. The ensemble was probably restored from a backup.
//
// path is under Options.Prefix, and "/" is the prefix itself.
//
// Cost: two or three requests when it begins, and in each new session. One request for each change
// that is yielded, and one more if the znode is created again at once. No request while nothing
// changes. The calls of a Client for one path share the requests for changes, and the watch, of
// which the server keeps one for each path and session. ZooKeeper's client cannot take it back: it
// stays until the znode changes, or the session ends.
func (c *Client) Watch(ctx context.Context, path string) iter.Seq2[Node, error] {
	return watchPath(ctx, c, path, false, func(s watch.State) Node {
		return Node{slices.Clone(s.Data), ownStat(s)}
	})
}

// WatchChildren is like Watch for the names of a znode's children: it yields what they are
// after each creation and deletion of a child, and of the znode. Changes of the children's
// data, and of their own children, yield nothing.
//
// The cost is that of Watch, where a request is a listing. With n children that come one by
// one, each reader may get n listings of up to n names.
func (c *Client) WatchChildren(ctx context.Context, path string) iter.Seq2[Children, error] {
	return watchPath(ctx, c, path, true, func(s watch.State) Children {
		return Children{ownNames(s.Children), ownStat(s)}
	})
}

// ownStat returns a copy of the Stat, which is shared.
func ownStat(s watch.State) *zk.Stat {
	if s.Stat == nil {
		return nil
	}
	stat := *s.Stat
	return &stat
}

// watchPath yields the states of a znode as own makes them.
func watchPath[A any](ctx context.Context, c *Client, path string, children bool, own func(watch.State) A) iter.Seq2[A, error] {
	return sequence(func(tell func(A) error) error {
		f := &watch.Follower{Children: children, Tell: func(s watch.State) error { return tell(own(s)) }}
		return c.inSessions(ctx, "watch", path, func(ctx context.Context, s *session.Session, abs string) error {
			f.Path = abs
			return f.Follow(ctx, s.Session)
		})
	})
}

var errEndedByCaller = errors.New("the caller ended the iteration")

// sequence yields what each tells, and at last the error with which it ends.
func sequence[A any](each func(tell func(A) error) error) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		ended := false
		err := each(func(a A) error {
			if ended = !yield(a, nil); ended {
				return errEndedByCaller
			}
			return nil
		})
		if !ended {
			var none A
			yield(none, err)
		}
	}
}

// ErrLeftOut is yielded by [Client.Recipes] for znodes that it did not look at, because
// RecipesOptions do not let it.
var ErrLeftOut = look.ErrLeftOut

// Usage is how busy a recipe is, as [Client.Recipes] finds it. Times are by the servers'
// clock, and zero if there is none.
type Usage struct {
	Recipe Recipe
	Path   string // below Options.Prefix

	// Holders is how many leases, terms, slot leases and visits there are, members whose
	// round was opened, members of a group, shards that have an owner, and items that consumers
	// have. A gate has none.
	Holders int
	// Waiters is how many calls wait in the line, members wait for others, and Clients wait
	// for items or room. Those at a gate leave no znode and are not counted.
	Waiters int
	Len     int // items of a queue, taken ones included
	Size    int // slots of a semaphore, members of a barrier, shards

	// HeldSince is since when the oldest of Holders holds. The znodes of a lock only tell since
	// when it is in the line: it has held since then or later. A kept lock counts from the
	// process's first hold. For barriers it is when the round or the double barrier was
	// opened, for a gate when it was shut, and for a group or shards when the oldest member came.
	HeldSince time.Time
	// WaitingSince is since when the oldest of Waiters waits.
	WaitingSince time.Time
	// ItemSince is when the first item of a queue was put, taken or not.
	ItemSince time.Time
}

// RecipesOptions bound [Client.Recipes]. nil is the same as the zero value.
type RecipesOptions struct {
	Depth  int // how many levels below the path are looked at; default 16
	Znodes int // how many znodes are looked at, and how many children one may have; default 10,000
}

// Recipes yields the recipes at the path root and below, one level after the other. "/" is
// all that is below Options.Prefix. It finds them by what this library writes: the
// data of lines and the znodes below. A lock, an election or a DoubleBarrier that nobody
// uses is found until its line is deleted, a queue for as long as it exists, and Shards for as long as
// their path has the number. A
// Barrier, Semaphore or Counter is found while there are znodes below its path, as there are
// while it is in use, a gate while it is shut, and a group while it has members: a znode without
// data whose first child is ephemeral. Locks of other libraries are found while
// somebody stands in them. They count as what the names of their places say: a Mutex or an RWLock.
//
// Errors of these kinds do not end the iteration. The Path is that of the znode that was skipped:
//
//   - zk.ErrNoAuth: the client may not read it.
//   - ErrLeftOut: the options leave out the znode and what is below. If there are several, the
//     last thing that is yielded says how many, with the Path of one of them.
//   - ErrPathInUse: a version of this library with another layout uses the path.
//
// Any other error ends the iteration, such as zk.ErrNoNode if there is no znode root, and
// ctx's error. What vanishes meanwhile is no error, and the numbers of one Usage may be of
// different moments. Recipes blocks for the servers' replies, in which it may lag behind the
// other servers.
//
// Cost: one read for each znode, and one listing if it has children. A znode without data that has
// some costs one read more, a Group one for each member, and Shards the same and two more. Beyond
// that, a lock costs a read for the first holder and one for the first waiter, an election the
// same, a semaphore two listings and a read for each slot that is taken and the first waiter, a
// Barrier a listing and up to two reads, a DoubleBarrier one for each member and one more, a
// Counter a listing and a read for the first waiter, a queue a read, three listings, one for each
// segment, a read for each item that is taken, for the first item of a segment, and for the first
// in each of its two lines. The places in a line are not read. Up to 256 requests are under way at
// a time.
func (c *Client) Recipes(ctx context.Context, root string, opts *RecipesOptions) iter.Seq2[Usage, error] {
	return func(yield func(Usage, error) bool) {
		limits, err := opts.limits()
		if err == nil {
			err = c.core().Check(ctx, strings.TrimSuffix(root, "/")+"/below") // root may be "/"
		}
		if err == nil && root != "/" {
			err = c.core().CheckPath(root)
		}
		if err != nil {
			yield(Usage{Path: root}, fail("look below", root, err))
			return
		}
		for u, err := range look.Walk(ctx, c.core(), root, limits) {
			if !yield(newUsage(u), fail("look at", u.Path, err)) {
				return
			}
		}
	}
}

func (o *RecipesOptions) limits() (look.Limits, error) {
	if o == nil {
		o = &RecipesOptions{}
	}
	switch {
	case o.Depth < 0:
		return look.Limits{}, fmt.Errorf("RecipesOptions.Depth must not be negative: %d", o.Depth)
	case o.Znodes < 0:
		return look.Limits{}, fmt.Errorf("RecipesOptions.Znodes must not be negative: %d", o.Znodes)
	}
	return look.Limits{Depth: cmp.Or(o.Depth, 16), Znodes: cmp.Or(o.Znodes, 10_000)}, nil
}

func newUsage(u look.Usage) Usage {
	return Usage{
		Recipe: recipeNamed(u.Recipe), Path: u.Path,
		Holders: u.Holders, Waiters: u.Waiters, Len: u.Len, Size: u.Size,
		HeldSince: u.HeldSince, WaitingSince: u.WaitingSince, ItemSince: u.ItemSince,
	}
}

// recipeNamed returns the Recipe with that name in a marker.
func recipeNamed(name string) Recipe { return Recipe(strings.ReplaceAll(name, " ", "")) }
