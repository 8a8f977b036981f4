package sim

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// holds tells the judge what the workers of a run hold, and what they write under it. Its times
// are logical, since many things happen at one instant of simulated time.
type holds struct {
	*world

	mu    sync.Mutex
	judge *judge.Judge
	live  map[*held]struct{} // granted, and not yet being released
}

// held is a grant. Until is when its worker last saw that it holds.
type held struct {
	judge.Event
	lease interface{ Err() error }
}

func newHolds(w *world, cfg judge.Config) *holds {
	return &holds{world: w, judge: judge.New(cfg), live: map[*held]struct{}{}}
}

func (h *holds) moment() time.Duration { return time.Duration(h.log.tick()) }

// granted notes a grant to a call that began at called, and reports whether others now
// believe in a hold with the same key.
func (h *holds) granted(worker any, called int64, lease interface{ Err() error }, e judge.Event) (g *held, beside bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Kind, e.Worker, e.Called = judge.Granted, fmt.Sprint(worker), time.Duration(called)
	e.At = h.moment()
	h.judge.Take(e)
	e.Kind, e.From = judge.Held, e.At
	g = &held{e, lease}
	for other := range h.live {
		beside = h.believe(other) && other.Key == g.Key || beside
	}
	h.believe(g)
	h.live[g] = struct{}{}
	return g, beside
}

// believe notes that a worker believes in its hold. If the server may expire the session of a
// live client, that means nothing. h.mu must be held.
func (h *holds) believe(g *held) bool {
	now := h.moment()
	if h.forcedExpiry || g.lease.Err() != nil {
		return false
	}
	g.Until = now
	return true
}

// downgrading notes that a writer may become a reader from now on, and returns its hold as one,
// and the moment.
func (h *holds) downgrading(g *held) (reader *held, moment time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reader = &held{g.Event, g.lease}
	reader.Shared = true
	if _, ok := h.live[g]; ok {
		delete(h.live, g)
		h.live[reader] = struct{}{}
	}
	return reader, h.moment()
}

// releasing notes that holds are about to end, and returns the moment.
func (h *holds) releasing(all ...*held) (moment time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range all {
		delete(h.live, g)
	}
	return h.moment()
}

// released reports a hold that was released with err. Unless it was lost, or may have been, it
// lasted until the release began.
func (h *holds) released(g *held, began time.Duration, err error) {
	until := g.Until
	if err == nil && !h.forcedExpiry {
		until = began
	}
	h.lasted(g, until)
}

// lasted reports a hold that lasted until then, at least.
func (h *holds) lasted(g *held, until time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.At, g.Until = h.moment(), until
	h.judge.Take(g.Event)
}

// committed notes a write under a lease, after which its znode has that Stat.
func (h *holds) committed(worker any, key string, token zkrecipes.Token, shared bool, stat *zk.Stat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judge.Take(judge.Event{
		At: h.moment(), Kind: judge.Committed, Key: key, Worker: fmt.Sprint(worker), Token: int64(token), Shared: shared,
		Zxid: stat.Mzxid, Was: stat.Version - 1, Version: stat.Version, // it has read nothing
	})
}

// check checks what the judge has found, once nothing is held.
func (h *holds) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judge.JudgeUntil(math.MaxInt64)
	for _, v := range h.judge.Violations() {
		h.log.violation("%s: %s", v.Rule, v.Text)
	}
}
