//go:build unix

package serve

import (
	"cmp"
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	costOfQueue = 10 // requests for a look at a queue, or about that
	mostItems   = 20 // of a queue that are read, if it is shown

	shownPoll = 2 * time.Second // between two looks at what no watch shows, if a browser shows it
	restPoll  = 10 * time.Second
)

// polled is what a poll has read of a line that is shown.
type polled struct {
	items  []shownItem // the first ones of a queue
	places []*place    // of other recipes without a watch
	more   int         // places, which are too many to be read
	says   string      // see view.Line.Says
}

// poll looks at recipes that no watch shows: at each that a browser shows every 2 s, and at
// queues every 10 s.
func (h *hub) poll(ctx context.Context) {
	due := map[string]time.Time{}
	for sleep(ctx, shownGap) == nil {
		for u := h.toPoll(due); u.Path != "" && ctx.Err() == nil; u = h.toPoll(due) {
			h.pollOne(ctx, u)
		}
	}
}

// toPoll returns what is due, shown lines first, and notes when it is due again. One at a time: a
// thousand queues take minutes.
func (h *hub) toPoll(due map[string]time.Time) (next zkrecipes.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for path := range due {
		if h.lines[path] == nil {
			delete(due, path)
		}
	}
	for _, f := range h.lines {
		every, isPolled := restPoll, f.recipe == zkrecipes.RecipeQueue
		if h.shown[f.path] > 0 {
			every, isPolled = shownPoll, len(watchedDirs(f.recipe)) == 0 || maySay(f.usage)
		}
		isDue := isPolled && now.Sub(due[f.path]) >= every
		if isDue && (next.Path == "" || cmp.Or(h.shown[f.path]-h.shown[next.Path], due[next.Path].Compare(due[f.path])) > 0) {
			next = f.usage
		}
	}
	if next.Path != "" {
		due[next.Path] = now
	}
	return next
}

// maySay reports whether there may be a value to show beside the places, which a watch shows.
func maySay(u zkrecipes.Usage) bool {
	return u.Recipe == zkrecipes.RecipeElection || u.Recipe == zkrecipes.RecipeMutex && path.Base(u.Path) == "lock"
}

func (h *hub) pollOne(ctx context.Context, u zkrecipes.Usage) {
	now, err := h.read(ctx, u)
	if errors.Is(err, zkrecipes.ErrUnused) || errors.Is(err, zk.ErrNoNode) {
		now, err = polled{}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.lines[u.Path]; f != nil && h.shown[u.Path] > 0 && err == nil { // else a walk or the watch says what is wrong
		f.polled = now
		h.touch(u.Path)
	}
}

// read looks at a recipe again, and reads what the page shows of it and no watch does.
func (h *hub) read(ctx context.Context, u zkrecipes.Usage) (now polled, err error) {
	if maySay(u) {
		if err := h.pay(ctx, h.looks, 1); err != nil {
			return now, err
		}
		l, err := view.ReadValue(ctx, h.client, u)
		return polled{says: l.Says()}, err
	}
	if err := h.pay(ctx, h.looks, costOfQueue); err != nil {
		return now, err
	}
	u, err = view.Find(ctx, h.client, u.Path)
	if err != nil || !h.noteUsage(u) {
		return now, err
	}
	if u.Recipe == zkrecipes.RecipeQueue {
		return polled{items: h.readItems(ctx, u.Path)}, nil
	}
	if n := u.Holders + u.Waiters; n > mostPlaces {
		return polled{more: n}, nil
	}
	l, err := view.Read(ctx, h.client, u)
	if err != nil {
		return now, err
	}
	for _, p := range l.Places {
		p.Identity, p.Contender = view.Brief(p.Identity), zkrecipes.Contender{} // which has all of it
		now.places = append(now.places, &place{Place: p, read: true})
	}
	now.says = l.Says()
	return now, h.pay(ctx, h.looks, len(l.Places))
}

// noteUsage notes how busy a recipe is, and reports whether a browser shows it.
func (h *hub) noteUsage(u zkrecipes.Usage) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.lines[u.Path]
	if f == nil || f.recipe != u.Recipe {
		return false // the next walk takes note of what it has become
	}
	h.used(f, u)
	return h.shown[u.Path] > 0
}

// readItems reads the first items of a queue, those that consumers have first.
func (h *hub) readItems(ctx context.Context, path string) []shownItem {
	var taken, free []shownItem
	for e, err := range zkrecipes.NewQueue(h.client, path, nil).Items(ctx) {
		if err != nil {
			break
		}
		i := shownItem{ID: string(e.ID), Since: millis(e.Since), Attempts: e.Attempts, Failure: view.Brief(e.Failure.Text)}
		if e.Taken {
			i.Consumer, i.Session, i.Taken = view.Brief(e.Consumer), view.Session(e.Session).String(), millis(e.TakenSince)
			taken = append(taken, i)
		} else {
			free = append(free, i)
		}
		if len(taken)+len(free) == mostItems || h.pay(ctx, h.looks, 2) != nil {
			break
		}
	}
	return append(taken, free...)
}
