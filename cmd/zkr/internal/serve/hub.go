//go:build unix

package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/zkrecipes/zkrecipes"
)

const (
	gap        = time.Second            // between two looks at a line
	shownGap   = 250 * time.Millisecond // the same if a browser shows the line
	publishGap = 400 * time.Millisecond // between two updates of a browser
	graphGap   = time.Second            // between two graphs
	forgetting = cells * cellTime       // after which a line that does not exist is forgotten

	shares       = 4 // into which Options.Requests are divided
	firstHaste   = 40
	longestHaste = time.Minute
)

// hub is the state that all browsers show. Its goroutines read from the servers, and publish
// what has changed, at most every publishGap.
type hub struct {
	client *zkrecipes.Client
	opts   Options
	count  atomic.Int64 // reads

	// Each of these, and the walk, has a quarter of Options.Requests. So lines that change all the
	// time keep nobody from seeing what is new.
	firsts *rate.Limiter // the first looks at lines, directories, and what has come there
	looks  *rate.Limiter // other looks at lines, and polls
	places *rate.Limiter // places, and what confirms a deadlock

	wake chan struct{} // for readPlaces: there may be something to read

	mu      sync.Mutex
	lines   map[string]*followed
	dirs    map[string]bool // that are watched for new recipes
	total   history
	skipped int // znodes that the last walk did not look at
	left    int // recipes beyond Options.Lines
	walked  time.Time
	lastErr string // of the walk

	shown    map[string]int // how many browsers show the line
	browsers int

	changed    map[string]bool // lines, since the last edition
	moved      bool            // the graph may have changed
	edition    int
	next       chan struct{} // closed when another edition is published
	graph      rendered
	confirmed  map[string]bool // deadlocks, by the keys of suspects
	deadlocked map[string]bool // paths
	perSecond  float64         // reads
	suspects   chan suspect
	arrivals   arrivals
}

// followed is a line and the goroutines that watch it.
type followed struct {
	line
	stop    context.CancelFunc
	watches int
	isDeaf  bool // the servers may have dropped the watch without an event, so it is listed instead
	row     rendered
	detail  rendered
}

func newHub(client *zkrecipes.Client, opts Options) *hub {
	h := &hub{
		client: client, opts: opts,
		wake:      make(chan struct{}, 1),
		dirs:      map[string]bool{},
		lines:     map[string]*followed{},
		shown:     map[string]int{},
		changed:   map[string]bool{},
		next:      make(chan struct{}),
		confirmed: map[string]bool{},
		suspects:  make(chan suspect, 1),
		arrivals:  arrivals{wake: make(chan struct{}, 1)},
	}
	share, burst := rate.Limit(opts.Requests)/shares, max(1, opts.Requests/6)
	h.firsts = rate.NewLimiter(share*firstHaste, burst)
	h.places = rate.NewLimiter(share*firstHaste, burst)
	h.looks = rate.NewLimiter(share, burst)
	return h
}

// slowDown ends the haste of the first reading.
func (h *hub) slowDown() {
	share := rate.Limit(h.opts.Requests) / shares
	h.firsts.SetLimit(share)
	h.places.SetLimit(share)
}

// run watches and publishes until ctx ends.
func (h *hub) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { h.walk(ctx, &all) })
	all.Go(func() { h.readPlaces(ctx) })
	all.Go(func() { h.poll(ctx) })
	all.Go(func() { h.confirm(ctx) })
	all.Go(func() { h.lookAtArrivals(ctx, &all) })
	h.publish(ctx)
}

// pay waits until n more requests of a share may be sent.
func (h *hub) pay(ctx context.Context, share *rate.Limiter, n int) error {
	h.count.Add(int64(n))
	for n > 0 {
		part := min(n, share.Burst())
		if err := share.WaitN(ctx, part); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// touch notes that a line has changed. The caller holds mu.
func (h *hub) touch(path string) { h.changed[path] = true }

// show notes that a browser shows a line, until the function that it returns is called. It
// returns false if there are too many browsers.
func (h *hub) show(path string) (hide func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.browsers == mostBrowsers {
		return nil, false
	}
	h.browsers++
	h.shown[path]++
	if f := h.lines[path]; f != nil && f.recipe == zkrecipes.RecipeGroup { // no watch tells of a member's data
		for _, p := range f.places {
			p.read, p.arrived = false, time.Now()
		}
	}
	h.touch(path)
	h.awaken()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.browsers--
		if h.shown[path]--; h.shown[path] == 0 {
			delete(h.shown, path)
			if f := h.lines[path]; f != nil {
				f.entries, f.read, f.says, f.detail = nil, nil, "", rendered{}
			}
		}
	}, true
}

func (h *hub) awaken() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// sorted returns the lines by path. The caller holds mu.
func (h *hub) sorted() []*followed {
	all := make([]*followed, 0, len(h.lines))
	for _, path := range slices.Sorted(maps.Keys(h.lines)) {
		all = append(all, h.lines[path])
	}
	return all
}
