package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
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

// fenced is what a Lease and a Term have in common.
type fenced interface {
	Token() zkrecipes.Token
	Commit(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error)
}

// commit writes with Commit, which must fail if the lease does not hold, and tells the judge. It makes
// the znode if there is none. shared reports afterwards whether a reader wrote.
func (h *holds) commit(worker any, key string, l fenced, shared func() bool) error {
	data := "/data-" + key[strings.LastIndexByte(key, '/')+1:]
	ctx, cancel := context.WithTimeout(h.ctx, 2*h.timeout)
	defer cancel()
	token := int64(l.Token())
	rs, err := l.Commit(ctx, zkrecipes.OpSet(data, strconv.AppendInt(nil, token, 16), -1))
	if errors.Is(err, zk.ErrNoNode) {
		_, err = l.Commit(ctx, zkrecipes.OpCreate(data, nil, 0, nil))
	} else if err == nil {
		h.mu.Lock()
		h.judge.Take(judge.Event{
			At: h.moment(), Kind: judge.Committed, Key: key, Worker: fmt.Sprint(worker), Token: token, Shared: shared(),
			Zxid: rs[0].Stat.Mzxid, Was: rs[0].Stat.Version - 1, Version: rs[0].Stat.Version, // it has read nothing
		})
		h.mu.Unlock()
	}
	h.log.note("worker %v: commit under 0x%x: %v", worker, token, err)
	return err
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
