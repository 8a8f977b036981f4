//go:build unix

package serve

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// A walk of thousands of recipes at the pace of Options.Requests takes minutes. So the directories
// in which recipes are, and those in which some may come, have a watch each, and what is new there
// is looked at. Not one watch for the tree: of that each place in each line would be an event and a
// read, which nothing bounds.
const (
	longestNews  = 10 * time.Second // between two looks at a directory, with four in it
	mostChildren = 10000            // of a directory that is watched
	mostUnknown  = 1000             // names that a first listing has looked at; the walks see the others
	fewChildren  = 20               // a path with more is none of a recipe that is told by its children
	mostBelow    = 1000             // znodes that are looked at below a new one
)

// arrivals are znodes that may be recipes which are not followed yet.
type arrivals struct {
	queue []string
	wake  chan struct{}
}

// watchAbove watches the directories above a line, up to the root. The caller holds mu.
func (h *hub) watchAbove(ctx context.Context, line string, all *sync.WaitGroup) {
	for dir := line; dir != h.opts.Root && dir != "/"; {
		dir = path.Dir(dir)
		h.watchDir(ctx, dir, h.opts.Lines, all)
	}
}

// watchDir watches a directory, if that is not a line itself and fewer than most are watched. The
// caller holds mu.
func (h *hub) watchDir(ctx context.Context, dir string, most int, all *sync.WaitGroup) {
	if h.dirs[dir] || len(h.dirs) >= most || h.lines[dir] != nil {
		return
	}
	h.dirs[dir] = true
	all.Go(func() {
		if h.followDir(ctx, dir) {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.dirs, dir) // a walk that finds recipes in it has it watched again
		}
	})
}

// followDir has the new znodes of a directory looked at. It returns true when the watch has failed
// or the directory is gone, and false if it must not be watched again.
func (h *hub) followDir(ctx context.Context, dir string) bool {
	if h.pay(ctx, h.firsts, costOfWatch) != nil {
		return true
	}
	var before map[string]bool
	for c, err := range h.client.WatchChildren(ctx, dir) {
		switch {
		case err != nil, c.None() && dir != h.opts.Root:
			return true
		case len(c.Names) > mostChildren, !h.listed(dir, before, c.Names):
			return false
		}
		before = map[string]bool{}
		for _, name := range c.Names {
			before[name] = true
		}
		if sleep(ctx, min(h.opts.Refresh, longestNews)/4) != nil || h.pay(ctx, h.firsts, 1) != nil {
			return true
		}
	}
	return true
}

// listed takes a listing of a directory. before is the last one, or nil. It returns false if the
// directory is a line.
func (h *hub) listed(dir string, before map[string]bool, names []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines[dir] != nil {
		return false
	}
	var unknown []string
	hasLines := false
	for _, name := range names {
		below := strings.TrimSuffix(dir, "/") + "/" + name
		isLine := h.lines[below] != nil
		hasLines = hasLines || isLine
		if !isLine && !before[name] && !h.dirs[below] {
			unknown = append(unknown, below)
		}
	}
	if before == nil {
		if len(unknown) <= mostUnknown {
			h.expect(unknown...)
		}
		return true
	}
	if len(unknown) > 0 && !hasLines && len(names) <= fewChildren {
		unknown = []string{dir} // perhaps it has become a recipe: a semaphore is one by its children
	}
	h.arrivals.queue = append(unknown, h.arrivals.queue...) // ahead of what was there before
	h.expect()
	return true
}

// expect has paths looked at. The caller holds mu.
func (h *hub) expect(paths ...string) {
	h.arrivals.queue = append(h.arrivals.queue, paths...)
	select {
	case h.arrivals.wake <- struct{}{}:
	default:
	}
}

// lookAtArrivals looks at what has come, until ctx ends.
func (h *hub) lookAtArrivals(ctx context.Context, all *sync.WaitGroup) {
	for ctx.Err() == nil {
		h.mu.Lock()
		var next string
		if len(h.arrivals.queue) > 0 {
			next = h.arrivals.queue[0]
			h.arrivals.queue = slices.Delete(h.arrivals.queue, 0, 1)
		}
		h.mu.Unlock()
		if next != "" {
			h.lookAt(ctx, next, all)
			continue
		}
		select {
		case <-h.arrivals.wake:
		case <-ctx.Done():
		}
	}
}

// lookAt looks for recipes at a path and below. If it is none, one may come below it.
func (h *hub) lookAt(ctx context.Context, at string, all *sync.WaitGroup) {
	if h.pay(ctx, h.firsts, costOfLook) != nil {
		return
	}
	for u, err := range h.client.Recipes(ctx, at, &zkrecipes.RecipesOptions{Znodes: mostBelow}) {
		if view.IsSkipped(err) {
			continue
		}
		if err != nil { // it is gone, or the next walk says what is wrong
			return
		}
		isFollowed := h.found(ctx, u, all)
		h.mu.Lock()
		if isFollowed {
			h.watchAbove(ctx, u.Path, all)
		} else {
			h.left = max(h.left, 1) // the next walk counts them
		}
		h.mu.Unlock()
		if h.pay(ctx, h.firsts, costOfLook) != nil {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchDir(ctx, at, h.opts.Lines/2, all)
}
