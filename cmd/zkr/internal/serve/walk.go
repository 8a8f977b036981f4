//go:build unix

package serve

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/time/rate"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	costOfLook = 4  // requests for a recipe in a walk, or about that
	walkRest   = 20 // a walk may take a twentieth of the time
)

// walk looks for recipes again and again. The first walk is as quick as it can be, for the page to show
// something. The others have a share of Options.Requests, and rest in proportion to what the znodes cost
// that are none.
func (h *hub) walk(ctx context.Context) {
	for ctx.Err() == nil {
		s := h.walkBelow(ctx, h.opts.Root, nil, h.walks)
		h.mu.Lock()
		h.noteWalk(ctx, s)
		h.mu.Unlock()
		if h.walks.Limit() == rate.Inf {
			h.awaitFirstReading(ctx)
			h.slowDown()
		}
		_ = sleep(ctx, max(h.opts.Refresh, walkRest*s.busy))
	}
}

// awaitFirstReading returns when all that the first walk has found was read, or soon after it.
func (h *hub) awaitFirstReading(ctx context.Context) {
	for since := time.Now(); time.Since(since) < longestHaste; {
		h.mu.Lock()
		known, looked, unread := h.progress()
		h.mu.Unlock()
		if looked == known && unread == 0 || sleep(ctx, publishGap) != nil {
			return
		}
	}
}

// progress returns how many lines are known, of how many it is known who stands in them, and how
// many places have yet to be read. The caller holds mu.
func (h *hub) progress() (known, looked, unread int) {
	for _, f := range h.lines {
		known++
		if f.looked || f.failed != "" || len(watchedDirs(f.recipe)) == 0 {
			looked++
		}
		for _, p := range f.readable() {
			if p.isOverdue() {
				unread++
			}
		}
	}
	return known, looked, unread
}

// sight is what a walk has seen.
type sight struct {
	seen    map[string]bool // recipes, and znodes that it could not look at
	skipped int             // of these znodes
	left    int             // recipes beyond Options.Lines
	err     error           // with which it ended
	busy    time.Duration   // how long it took without what the share had it wait
}

// walkBelow looks for recipes at a path and below, and has those that are new followed.
func (h *hub) walkBelow(ctx context.Context, at string, limits *zkrecipes.RecipesOptions, share *rate.Limiter) sight {
	s := sight{seen: map[string]bool{}}
	since := time.Now()
	for u, err := range h.client.Recipes(ctx, at, limits) {
		s.busy += time.Since(since)
		switch {
		case view.IsSkipped(err):
			s.skipped++
			s.seen[u.Path] = true
			if !errors.Is(err, zkrecipes.ErrLeftOut) { // which says nothing of a line that is watched
				h.cannotLook(u.Path, err)
			}
		case err != nil:
			s.err = err
		default:
			s.seen[u.Path] = true
			if !h.found(ctx, u) {
				s.left++
			}
			_ = h.pay(ctx, share, costOfLook)
		}
		since = time.Now()
	}
	s.busy += time.Since(since) // with the znodes behind the last recipe, or all if there is none
	return s
}

// noteWalk takes what a walk of all has seen. The caller holds mu.
func (h *hub) noteWalk(ctx context.Context, s sight) {
	h.skipped, h.left, h.lastErr = s.skipped, s.left, ""
	if s.err != nil && !errors.Is(s.err, zk.ErrNoNode) { // else there is no root yet
		h.lastErr = s.err.Error()
		return
	}
	h.walked = time.Now()
	h.forget(s.seen)
	h.watchDir(ctx, h.opts.Root, h.opts.Lines)
	for path := range h.lines {
		h.watchAbove(ctx, path)
	}
}

// forget forgets lines that have not existed for long. The caller holds mu.
func (h *hub) forget(seen map[string]bool) {
	for path, f := range h.lines {
		if seen[path] {
			f.last = h.walked
			continue
		}
		if len(watchedDirs(f.recipe)) == 0 { // nobody else would notice
			f.usage = zkrecipes.Usage{Recipe: f.recipe, Path: path}
			h.touch(path)
		}
		if h.walked.Sub(f.last) > forgetting {
			h.drop(path)
		}
	}
}

// drop forgets a line. The caller holds mu.
func (h *hub) drop(path string) {
	h.lines[path].stop()
	delete(h.lines, path)
	h.touch(path)
	h.moved = true
}

// found takes a recipe that a walk has found, and begins to follow it. It returns false if there
// are too many.
func (h *hub) found(ctx context.Context, u zkrecipes.Usage) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.lines[u.Path]
	if f != nil && f.recipe != u.Recipe {
		h.drop(u.Path)
		f = nil
	}
	if f == nil {
		if len(h.lines) >= h.opts.Lines {
			return false
		}
		f = &followed{line: line{path: u.Path, recipe: u.Recipe}}
		h.lines[u.Path] = f
		h.begin(ctx, f)
	} else if f.failed != "" {
		h.begin(ctx, f)
	}
	h.used(f, u)
	return true
}

// used takes how busy a recipe is. The caller holds mu.
func (h *hub) used(f *followed, u zkrecipes.Usage) {
	now := time.Now()
	f.usage, f.last = u, now
	if u.Recipe == zkrecipes.RecipeQueue {
		f.history.sawLength(now, u.Len)
	}
	h.touch(u.Path)
}

// cannotLook notes that a walk could not look at a path, at which there may be a line. Servers
// tell a watch nothing of a znode that the client may not read any more.
func (h *hub) cannotLook(path string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.lines[path]; f != nil {
		h.failed(f, err)
	}
}
