//go:build unix

package serve

import (
	"context"
	"strings"
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
	all    sync.WaitGroup // goroutines
	count  atomic.Int64   // requests, since they were last measured

	// Each of these has a quarter of Options.Requests. So lines that change all the time keep nobody
	// from seeing what is new.
	walks  *rate.Limiter
	firsts *rate.Limiter // the first looks at lines, directories, and what has come there
	looks  *rate.Limiter // other looks at lines, and polls
	places *rate.Limiter // places, and what confirms a deadlock

	wake     chan struct{} // for readPlaces: there may be something to read
	suspects chan []string // for confirm: the places of a circle

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
	drawn      time.Time       // when the graph was
	confirmed  map[string]bool // circles, by keyOf
	deadlocked map[string]bool // paths
	measured   time.Time       // when perSecond was
	perSecond  float64         // requests
}

// followed is a line and the goroutines that watch it.
type followed struct {
	line
	stop   context.CancelFunc
	isDeaf bool // the servers may have dropped the watch without an event, so it is listed instead
	row    rendered
	detail rendered
}

func newHub(client *zkrecipes.Client, opts Options) *hub {
	share, burst := rate.Limit(opts.Requests)/shares, max(1, opts.Requests/6)
	return &hub{
		client: client, opts: opts,
		walks:     rate.NewLimiter(rate.Inf, costOfLook),
		firsts:    rate.NewLimiter(share*firstHaste, burst),
		looks:     rate.NewLimiter(share, burst),
		places:    rate.NewLimiter(share*firstHaste, burst),
		wake:      make(chan struct{}, 1),
		suspects:  make(chan []string, 1),
		dirs:      map[string]bool{},
		lines:     map[string]*followed{},
		shown:     map[string]int{},
		changed:   map[string]bool{},
		moved:     true, // a browser that has another zkr's graph must get this one
		next:      make(chan struct{}),
		confirmed: map[string]bool{},
		measured:  time.Now(),
	}
}

// slowDown ends the haste of the first reading.
func (h *hub) slowDown() {
	for _, share := range []*rate.Limiter{h.walks, h.firsts, h.places} {
		share.SetLimit(h.looks.Limit())
	}
}

// run watches and publishes until ctx ends.
func (h *hub) run(ctx context.Context) {
	defer h.all.Wait()
	for _, part := range []func(context.Context){h.walk, h.readPlaces, h.poll, h.confirm} {
		h.all.Go(func() { part(ctx) })
	}
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

func setOf[E comparable](elements []E) map[E]bool {
	set := map[E]bool{}
	for _, e := range elements {
		set[e] = true
	}
	return set
}

// wakeReader has readPlaces look for what to read.
func (h *hub) wakeReader() {
	select {
	case h.wake <- struct{}{}:
	default: // it will
	}
}

// touch notes that a line has changed, and the queue of which it has the dead letters. The caller
// holds mu.
func (h *hub) touch(path string) {
	h.changed[path] = true
	if queue, isDead := strings.CutSuffix(path, deadSuffix); isDead {
		h.changed[queue] = true
	}
}

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
	h.wakeReader()
	if h.browsers == 1 { // what is rendered is what the last browser has seen, perhaps long ago
		h.render(time.Now())
	}
	return func() { h.hide(path) }, true
}

func (h *hub) hide(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.browsers--
	if h.shown[path]--; h.shown[path] > 0 {
		return
	}
	delete(h.shown, path)
	if f := h.lines[path]; f != nil {
		f.polled, f.detail = polled{}, rendered{}
	}
}
