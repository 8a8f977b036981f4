//go:build unix

package serve

import (
	"context"
	"path"
	"time"

	"github.com/zkrecipes/zkrecipes"
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

// watchAbove watches the directories above a line, up to the root. The caller holds mu.
func (h *hub) watchAbove(ctx context.Context, line string) {
	for dir := line; dir != h.opts.Root && dir != "/"; {
		dir = path.Dir(dir)
		h.watchDir(ctx, dir, h.opts.Lines)
	}
}

// watchDir watches a directory, if that is not a line itself and fewer than most are watched. The
// caller holds mu.
func (h *hub) watchDir(ctx context.Context, dir string, most int) {
	if h.dirs[dir] || len(h.dirs) >= most || h.lines[dir] != nil {
		return
	}
	h.dirs[dir] = true
	h.all.Go(func() {
		h.followDir(ctx, dir)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.dirs, dir) // a walk that finds recipes in it has it watched again
	})
}

// followDir looks at the new znodes of a directory, until the watch fails, the directory is gone or it is
// a line.
func (h *hub) followDir(ctx context.Context, dir string) {
	if h.pay(ctx, h.firsts, costOfWatch) != nil {
		return
	}
	var before map[string]bool
	for c, err := range h.client.WatchChildren(ctx, dir) {
		if err != nil || c.None() && dir != h.opts.Root {
			return
		}
		if len(c.Names) > mostChildren {
			<-ctx.Done() // it is too large to be listed again
			return
		}
		unknown, isLine := h.unknownIn(dir, before, c.Names)
		switch {
		case isLine:
			return
		case before == nil: // beside what is new from now on
			h.all.Go(func() { h.lookAt(ctx, dir, unknown, walkRest) })
		default:
			h.lookAt(ctx, dir, unknown, 0)
		}
		before = setOf(c.Names)
		if sleep(ctx, min(h.opts.Refresh, longestNews)/4) != nil || h.pay(ctx, h.firsts, 1) != nil {
			return
		}
	}
}

// unknownIn returns what to look at after a listing of a directory. before has the names of the last one,
// or is nil at the first. isLine reports whether the directory is a line itself.
func (h *hub) unknownIn(dir string, before map[string]bool, names []string) (unknown []string, isLine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hasLines := false
	for _, name := range names {
		below := path.Join(dir, name)
		isLine := h.lines[below] != nil
		hasLines = hasLines || isLine
		if !isLine && !before[name] && !h.dirs[below] {
			unknown = append(unknown, below)
		}
	}
	switch {
	case before == nil && len(unknown) > mostUnknown:
		unknown = nil
	case before != nil && len(unknown) > 0 && !hasLines && len(names) <= fewChildren:
		unknown = append([]string{dir}, unknown...) // perhaps it has become a recipe: a semaphore is one by its children
	}
	return unknown, h.lines[dir] != nil
}

// lookAt looks for recipes at paths in a directory and below, until the directory is a line itself. If a
// path is none, some may come below it. It rests so many times as long as a look takes: znodes that are
// no recipes are not paid for.
func (h *hub) lookAt(ctx context.Context, dir string, paths []string, rest int) {
	for _, at := range paths {
		if h.pay(ctx, h.firsts, costOfLook) != nil {
			return
		}
		limits := &zkrecipes.RecipesOptions{Znodes: mostBelow}
		if at == dir {
			limits.Depth = 1 // what is below was looked at before
		}
		s := h.walkBelow(ctx, at, limits, h.firsts)
		h.mu.Lock()
		h.noteArrival(ctx, at, s)
		isLine := h.lines[dir] != nil
		h.mu.Unlock()
		if isLine || sleep(ctx, time.Duration(rest)*s.busy) != nil {
			return
		}
	}
}

// noteArrival takes what was seen at a path. The caller holds mu.
func (h *hub) noteArrival(ctx context.Context, at string, s sight) {
	for path := range s.seen {
		if h.lines[path] != nil {
			h.watchAbove(ctx, path)
		}
	}
	if s.left > 0 {
		h.left = max(h.left, 1) // the next walk counts them
	}
	if s.err == nil { // else it is gone, or the next walk says what is wrong
		h.watchDir(ctx, at, h.opts.Lines/2)
	}
}
