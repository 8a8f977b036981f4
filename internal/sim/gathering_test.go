package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// gathering is a world in which workers wait for each other. Beside what befalls
// clients at any time, something befalls them at once when the server has applied
// a change: a call is cancelled, a process struck.
type gathering struct {
	*world
	n     map[string]int // how many are waited for, by path
	steps []string       // the recipe's requests, at which faults are aimed

	mu      sync.Mutex
	dice    *rand.Rand
	calm    bool
	left    int // workers that are not done
	waiting map[*stay]struct{}
	over    bool            // nobody begins to wait any more
	evicted map[string]bool // paths of members that the operator has deleted, or is about to
}

// stay is a call that waits.
type stay struct {
	path   string
	cancel context.CancelFunc
}

// gather returns a gathering at one or two of the paths.
func gather(seed uint64, steps func(n int) []string, paths ...string) (*gathering, *rand.Rand) {
	sc, r := newScenario(seed)
	sc.paths = paths[:1+r.IntN(len(paths))]
	sc.mortal = !sc.sleepy && r.IntN(2) == 0
	if r.IntN(2) == 0 {
		sc.latency = time.Duration(1+r.IntN(5)) * time.Millisecond
	}
	g := &gathering{
		world: &world{scenario: sc}, n: map[string]int{}, waiting: map[*stay]struct{}{}, evicted: map[string]bool{},
		dice: rand.New(rand.NewPCG(seed, 5000)), left: sc.clients * sc.workers,
	}
	for _, path := range sc.paths {
		g.n[path] = 1 + r.IntN(min(4, g.left))
		g.steps = append(g.steps, steps(g.n[path])...)
	}
	return g, r
}

// begin aims faults at the steps of the recipe.
func (g *gathering) begin() {
	if g.quiet {
		return
	}
	actions := []zktest.Action{zktest.Drop, zktest.Drop, zktest.Delay, zktest.Delay, zktest.Answer, zktest.Withhold}
	if g.forced {
		actions = append(actions, zktest.Expire, zktest.Expire)
	}
	r := rand.New(rand.NewPCG(g.seed, 6000))
	for range r.IntN(20) {
		g.plan.Add(zktest.Fault{
			Do: actions[r.IntN(len(actions))], After: r.IntN(2) == 0,
			Op: g.steps[r.IntN(len(g.steps))], Skip: r.IntN(12),
			For:  time.Duration(r.Int64N(int64(g.timeout))),
			Code: []int32{-4, -7}[r.IntN(2)],
		})
	}
}

func (g *gathering) trace(i int) *zkrecipes.Trace { return g.notes(i) }

func (g *gathering) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	for _, p := range g.processes {
		weather.Go(func() { p.fate(calm) })
	}
	weather.Go(func() {
		<-calm
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calm = true
	})
}

// strike is called with each change of what is waited for.
func (g *gathering) strike(c zktest.Change) {
	what := "set " + strconv.Quote(string(c.Data))
	if c.Created {
		what = "created"
	} else if c.Deleted {
		what = "deleted"
	}
	g.h.note("server: 0x%x %s %s", c.Zxid, c.Path, what)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calm || g.dice.IntN(8) > 0 {
		return
	}
	if g.dice.IntN(2) == 0 {
		select {
		case g.processes[g.dice.IntN(len(g.processes))].struck <- struct{}{}:
		default:
		}
		return
	}
	for s := range g.waiting { // any
		g.befell.add("cancelled at a step")
		s.cancel()
		break
	}
}

// wait calls f, which may be cancelled; false if nobody begins to wait any more.
func (g *gathering) wait(r *rand.Rand, path string, f func(ctx context.Context)) bool {
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	switch how := r.IntN(10); {
	case how < 2:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(4*time.Second))))
	case how < 4:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond+8*g.latency))))
	}
	defer cancel()
	s := &stay{path, cancel}
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return false
	}
	g.waiting[s] = struct{}{}
	g.mu.Unlock()
	f(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting, s)
	return true
}

// mayFail tells errors that a worker has to expect.
func (g *gathering) mayFail(ctx context.Context, p *process, life int, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return true
	case errors.Is(err, zkrecipes.ErrClosed):
		return p.ended(life)
	case errors.Is(err, zkrecipes.ErrEvicted):
		return g.operator
	}
	return errors.Is(err, zk.ErrSessionExpired)
}

// settle ends the waits that nobody will end: all who are left wait, and nowhere
// as many as are waited for.
func (g *gathering) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := map[string]int{}
	for s := range g.waiting {
		at[s.path]++
	}
	if len(g.waiting) < g.left {
		return
	}
	for path, n := range at {
		if n >= g.n[path] {
			return
		}
	}
	g.over = true
	for s := range g.waiting {
		s.cancel()
	}
}

// gone notes that a worker is done.
func (g *gathering) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left--
}

// evict deletes members of what is waited for, below the world's paths.
func (g *gathering) evict(calm <-chan struct{}, below string) {
	r := rand.New(rand.NewPCG(g.seed, 2000))
	conn, done := g.bare()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(6 * time.Second)))):
		case <-calm:
			return
		}
		parent := g.paths[r.IntN(len(g.paths))] + below
		members := slices.DeleteFunc(g.srv.Children(parent), func(name string) bool { return name == "ready" })
		if len(members) == 0 {
			continue
		}
		member := parent + "/" + members[r.IntN(len(members))]
		g.mu.Lock()
		g.evicted[member] = true
		g.mu.Unlock()
		g.h.note("operator: delete %s: %v", member, conn.Delete(member, -1))
		g.befell.add("member deleted")
	}
}
