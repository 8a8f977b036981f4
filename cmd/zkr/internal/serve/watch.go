//go:build unix

package serve

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/time/rate"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	costOfLook  = 4   // requests for a recipe in a walk, or about that
	costOfQueue = 10  // requests for a look at a queue, or about that
	costOfItem  = 5   // requests for an item that is read by itself, or about that
	costOfWatch = 3   // requests when a watch begins, and for the next look
	walkRest    = 20  // a walk may take a twentieth of the time
	readAtOnce  = 8   // places
	fewLooks    = 4   // at a line that is new
	mostPlaces  = 500 // of a line that are read
	mostItems   = 20  // of a queue that are read, if it is shown

	overdue   = 3 * time.Second // after which a place that has come should have been read
	shownPoll = 2 * time.Second // between two looks at what no watch shows, if a browser shows it
	restPoll  = 10 * time.Second
)

// walk looks for recipes again and again. New ones are followed, by goroutines in all. The
// first walk is as quick as it can be, for the page to show something. The others have a share
// of Options.Requests, and rest in proportion to what the znodes cost that are none.
func (h *hub) walk(ctx context.Context, all *sync.WaitGroup) {
	pace := rate.NewLimiter(rate.Inf, costOfLook)
	for ctx.Err() == nil {
		busy := h.walkOnce(ctx, all, pace)
		if pace.Limit() == rate.Inf {
			pace.SetLimit(rate.Limit(h.opts.Requests) / shares)
			h.awaitFirstReading(ctx)
			h.slowDown()
		}
		_ = sleep(ctx, max(h.opts.Refresh, walkRest*busy))
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
		for _, p := range f.places[:min(len(f.places), mostPlaces)] {
			if isOverdue(p) {
				unread++
			}
		}
	}
	return known, looked, unread
}

// isOverdue reports whether a place should have been read. In lines that move all the time, there is
// always one that has just come.
func isOverdue(p *place) bool {
	return isUnread(p) && time.Since(p.arrived) > overdue
}

// walkOnce returns how long it took without what the pace has it wait.
func (h *hub) walkOnce(ctx context.Context, all *sync.WaitGroup, pace *rate.Limiter) (busy time.Duration) {
	seen := map[string]bool{}
	skipped, left, failed := 0, 0, ""
	since := time.Now()
	for u, err := range h.client.Recipes(ctx, h.opts.Root, nil) {
		busy += time.Since(since)
		switch {
		case view.IsSkipped(err):
			skipped++
			seen[u.Path] = true
			h.cannotLook(u.Path, err)
		case errors.Is(err, zk.ErrNoNode): // no root yet
		case err != nil:
			failed = err.Error()
		default:
			seen[u.Path] = true
			if !h.found(ctx, u, all) {
				left++
			}
			h.count.Add(costOfLook)
			_ = pace.WaitN(ctx, costOfLook)
		}
		since = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.skipped, h.left, h.lastErr = skipped, left, failed
	if failed == "" {
		h.walked = time.Now()
		h.forget(seen)
		h.watchDir(ctx, h.opts.Root, h.opts.Lines, all)
		for path := range h.lines {
			h.watchAbove(ctx, path, all)
		}
	}
	return busy
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
func (h *hub) found(ctx context.Context, u zkrecipes.Usage, all *sync.WaitGroup) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.lines[u.Path]
	if f != nil && f.recipe != u.Recipe {
		h.drop(u.Path)
		f = nil
	}
	if f != nil && f.failed == "" {
		h.used(f, u)
		return true
	}
	if f == nil && len(h.lines) >= h.opts.Lines {
		return false
	}
	if f == nil {
		f = &followed{line: line{path: u.Path, recipe: u.Recipe}}
		h.lines[u.Path] = f
	} else {
		f.stop() // what is left of its goroutines: it is watched anew
		f.failed = ""
	}
	f.listings, f.looked = map[string]listing{}, false
	h.used(f, u)
	ctx, f.stop = context.WithCancel(ctx)
	if !f.isDeaf {
		f.watches = len(watchedDirs(u.Recipe))
	}
	isDeaf := f.isDeaf
	for _, dir := range watchedDirs(u.Recipe) {
		all.Go(func() { h.follow(ctx, f, dir, isDeaf) })
	}
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

// follow watches a directory of a line until ctx ends.
func (h *hub) follow(ctx context.Context, f *followed, dir string, isDeaf bool) {
	if h.pay(ctx, h.firsts, costOfWatch) != nil {
		return
	}
	states := h.client.WatchChildren(ctx, f.path+dir)
	if isDeaf {
		states = h.listAgain(ctx, f.path+dir)
	}
	looks := 0
	for c, err := range states {
		if ctx.Err() != nil { // also if the other directory's watch has failed
			return
		}
		if err != nil {
			h.mu.Lock()
			h.failed(f, err)
			h.mu.Unlock()
			return
		}
		h.observed(f, dir, newListing(c))
		share, cost := h.looks, 1
		if looks++; looks < fewLooks {
			share = h.firsts
		}
		if looks == 1 {
			cost = 0 // costOfWatch has it
		}
		// While this waits, changes add up. The next look shows them all.
		if sleep(ctx, h.gapOf(f.path)) != nil || h.pay(ctx, share, cost) != nil {
			return
		}
	}
}

// listAgain is like WatchChildren, but lists every 2 s.
func (h *hub) listAgain(ctx context.Context, path string) iter.Seq2[zkrecipes.Children, error] {
	return func(yield func(zkrecipes.Children, error) bool) {
		for {
			names, stat, err := h.client.Children(ctx, path)
			if errors.Is(err, zk.ErrNoNode) {
				names, stat, err = nil, nil, nil
			}
			if !yield(zkrecipes.Children{Names: names, Stat: stat}, err) || err != nil || sleep(ctx, shownPoll) != nil {
				return
			}
		}
	}
}

func (h *hub) gapOf(path string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shown[path] > 0 {
		return shownGap
	}
	return gap
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

// failed ends the watches of a line, until a walk finds it again. The caller holds mu.
func (h *hub) failed(f *followed, err error) {
	f.stop()
	f.isDeaf = true
	f.failed, f.places, f.watches = err.Error(), nil, 0
	h.touch(f.path)
	h.moved = true
}

func (h *hub) observed(f *followed, dir string, seen listing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	c := f.observe(now, dir, seen)
	f.history.add(now, c)
	h.total.add(now, c)
	h.touch(f.path)
	h.moved = true
	h.awaken()
}

// readPlaces reads the znodes of places that have not been read: those of the lines that are
// shown, then those of lines in which somebody waits, the longest held ones first. A deadlock is in
// such lines, and in a line that moves all the time it is not.
func (h *hub) readPlaces(ctx context.Context) {
	for ctx.Err() == nil {
		work := h.unread()
		if len(work) == 0 {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			continue
		}
		var batch sync.WaitGroup
		for _, w := range work {
			if h.pay(ctx, h.places, 1) != nil {
				break
			}
			batch.Go(func() { h.readPlace(ctx, w) })
		}
		batch.Wait()
	}
}

// unreadPlace is a place to read, and in which line it is.
type unreadPlace struct {
	f *followed
	p *place
}

func (h *hub) unread() (work []unreadPlace) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []*followed
	for _, f := range h.lines {
		if slices.ContainsFunc(f.places[:min(len(f.places), mostPlaces)], isUnread) {
			lines = append(lines, f)
		}
	}
	rank := func(f *followed) int {
		switch {
		case h.shown[f.path] > 0:
			return 0
		case !f.places[len(f.places)-1].held: // somebody waits
			return 1
		}
		return 2
	}
	slices.SortFunc(lines, func(a, b *followed) int {
		return cmp.Or(rank(a)-rank(b), a.places[0].heldAt.Compare(b.places[0].heldAt), cmp.Compare(a.path, b.path))
	})
	for _, f := range lines {
		for _, p := range f.places[:min(len(f.places), mostPlaces)] {
			if isUnread(p) {
				work = append(work, unreadPlace{f, p})
			}
			if len(work) == readAtOnce {
				return work
			}
		}
	}
	return work
}

func isUnread(p *place) bool { return !p.read }

func (h *hub) readPlace(ctx context.Context, w unreadPlace) {
	data, stat, err := h.client.Get(ctx, w.p.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return // it is tried again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.p.read = true // also if it has gone, which the watch will tell, or may not be read
	if err == nil {
		w.p.identity, w.p.session = view.Brief(data), view.Session(stat.EphemeralOwner)
		w.p.since = time.UnixMilli(stat.Ctime)
	}
	h.touch(w.f.path)
	h.moved = true
}

// poll looks at recipes that no watch shows: at each that a browser shows every 2 s, and at
// queues every 10 s.
func (h *hub) poll(ctx context.Context) {
	due := map[string]time.Time{}
	for sleep(ctx, shownGap) == nil {
		for _, u := range h.polled(due) {
			if ctx.Err() != nil {
				return
			}
			h.pollOne(ctx, u)
		}
	}
}

// polled returns what is due, and notes when it is due again.
func (h *hub) polled(due map[string]time.Time) (us []zkrecipes.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for path := range due {
		if h.lines[path] == nil {
			delete(due, path)
		}
	}
	for _, f := range h.sorted() {
		every := restPoll
		if h.shown[f.path] > 0 {
			every = shownPoll
		}
		isPolled := f.recipe == zkrecipes.RecipeQueue || h.shown[f.path] > 0 && (len(watchedDirs(f.recipe)) == 0 || maySay(f.usage))
		if isPolled && now.Sub(due[f.path]) >= every {
			due[f.path] = now
			us = append(us, f.usage)
		}
	}
	return us
}

// maySay reports whether there may be a value to show beside the places.
func maySay(u zkrecipes.Usage) bool {
	return u.Recipe == zkrecipes.RecipeElection || u.Recipe == zkrecipes.RecipeMutex && path.Base(u.Path) == "lock"
}

func (h *hub) pollOne(ctx context.Context, u zkrecipes.Usage) {
	if maySay(u) {
		h.pollValue(ctx, u)
		return
	}
	if h.pay(ctx, h.looks, costOfQueue) != nil {
		return
	}
	now, err := view.Find(ctx, h.client, u.Path)
	if err != nil || now.Recipe != u.Recipe {
		return // the next walk finds what has become of it
	}
	h.mu.Lock()
	f, shown := h.lines[u.Path], h.shown[u.Path] > 0
	if f != nil && f.recipe == u.Recipe {
		h.used(f, now)
	}
	h.mu.Unlock()
	if !shown {
		return
	}
	var entries []zkrecipes.Entry
	var places []view.Place
	says := ""
	if u.Recipe == zkrecipes.RecipeQueue {
		entries = h.readItems(ctx, u.Path)
	} else {
		l, _ := view.Read(ctx, h.client, now)
		places, says = l.Places, l.Says()
		for i := range places {
			places[i].Identity = view.Brief(places[i].Identity)
			places[i].Contender = zkrecipes.Contender{}
		}
		_ = h.pay(ctx, h.looks, len(places))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.lines[u.Path]; f != nil && h.shown[u.Path] > 0 {
		f.entries, f.read, f.says = entries, places, says
		h.touch(u.Path)
	}
}

// pollValue reads what the line of a lock or an election says, whose places a watch shows.
func (h *hub) pollValue(ctx context.Context, u zkrecipes.Usage) {
	if h.pay(ctx, h.looks, 1) != nil {
		return
	}
	l, err := view.ReadValue(ctx, h.client, u)
	if err != nil {
		return // the watch says what is wrong
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.lines[u.Path]; f != nil && h.shown[u.Path] > 0 && f.says != l.Says() {
		f.says = l.Says()
		h.touch(u.Path)
	}
}

// readItems reads the first items of a queue, those that consumers have first.
func (h *hub) readItems(ctx context.Context, path string) (entries []zkrecipes.Entry) {
	for e, err := range zkrecipes.NewQueue(h.client, path, nil).Items(ctx) {
		if err != nil {
			break
		}
		e.Data = nil
		e.Consumer, e.Failure.Text = view.Brief(e.Consumer), view.Brief(e.Failure.Text)
		if entries = append(entries, e); len(entries) == mostItems || h.pay(ctx, h.looks, 2) != nil {
			break
		}
	}
	slices.SortStableFunc(entries, func(a, b zkrecipes.Entry) int { return cmp.Compare(bit(b.Taken), bit(a.Taken)) })
	return entries
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
