package zkrecipes

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/look"
)

// ErrLeftOut is yielded by [Client.Recipes] for znodes that it did not look at, because
// RecipesOptions do not let it.
var ErrLeftOut = look.ErrLeftOut

// Usage is how busy a recipe is, as [Client.Recipes] finds it. Times are by the servers'
// clock, and zero if there is none.
type Usage struct {
	Recipe Recipe
	Path   string // below Options.Prefix

	// Holders is how many leases, terms, slot leases and visits there are, members whose
	// round was opened, and items that consumers have. A gate has none.
	Holders int
	// Waiters is how many calls wait in the line, members wait for others, and Clients wait
	// for items or room. Those at a gate leave no znode and are not counted.
	Waiters int
	Len     int // items of a queue, taken ones included
	Size    int // slots of a semaphore, members of a barrier

	// HeldSince is since when the oldest of Holders holds. The znodes of a lock only tell since
	// when it is in the line: it has held since then or later. A kept lock counts from the
	// process's first hold. For barriers it is when the round or the double barrier was
	// opened, for a gate when it was shut.
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
// uses is found until its line is deleted, and a queue for as long as it exists. A
// Barrier, Semaphore or Counter is found while there are znodes below its path, as there are
// while it is in use, and a gate while it is shut. Locks of other libraries are found while somebody stands in them. They, and a line
// in somebody's own data, count as what the names of their places say: a Mutex or an RWLock.
//
// An error that comes with the Path of a znode that was skipped does not end the iteration:
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
// Cost: one read for each znode, and one listing if it has children. Beyond that, a lock costs a
// read for the first holder and one for the first waiter, an election the same, a semaphore two
// listings and a read for each slot that is taken and the first waiter, a Barrier a listing and
// up to two reads, a DoubleBarrier one for each member and one more, a Counter a listing and a read for the first
// waiter, a queue a read, three
// listings, one for each segment of about a hundred items, a read for each item that is taken, for
// the first item of a segment, and for the first in each of its two lines. The places in a
// line are not read. Up to 16 requests are under way at a time.
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
	limits := look.Limits{Depth: 16, Znodes: 10000}
	switch {
	case o == nil:
		return limits, nil
	case o.Depth < 0, o.Znodes < 0:
		return limits, fmt.Errorf("RecipesOptions are %+v", *o)
	}
	if o.Depth > 0 {
		limits.Depth = o.Depth
	}
	if o.Znodes > 0 {
		limits.Znodes = o.Znodes
	}
	return limits, nil
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
