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
type waitWorld struct {
	*world
	sizes map[string]int // how many are waited for, by path
	steps []string       // the recipe's requests, at which faults are aimed

	mu              sync.Mutex
	rng             *rand.Rand
	faultsOver      bool
	working         int // workers that are not done
	pending         map[*pendingCall]struct{}
	stopping        bool            // nobody begins to wait any more
	operatorDeleted map[string]bool // paths of members that the operator has deleted, or is about to
}

// stay is a call that waits.
type pendingCall struct {
	path   string
	cancel context.CancelFunc
}

// gather returns a gathering at one or two of the paths.
func newWaitWorld(seed uint64, steps func(n int) []string, paths ...string) (*waitWorld, *rand.Rand) {
	sc, r := newScenario(seed)
	sc.paths = paths[:1+r.IntN(len(paths))]
	sc.restarts = !sc.pauses && r.IntN(2) == 0
	if r.IntN(2) == 0 {
		sc.latency = time.Duration(1+r.IntN(5)) * time.Millisecond
	}
	g := &waitWorld{
		world: &world{scenario: sc}, sizes: map[string]int{}, pending: map[*pendingCall]struct{}{}, operatorDeleted: map[string]bool{},
		rng: rand.New(rand.NewPCG(seed, 5000)), working: sc.clients * sc.workers,
	}
	for _, path := range sc.paths {
		g.sizes[path] = 1 + r.IntN(min(4, g.working))
		g.steps = append(g.steps, steps(g.sizes[path])...)
	}
	return g, r
}

// begin aims faults at the steps of the recipe.
func (w *waitWorld) begin() {
	if w.noServerFaults {
		return
	}
	actions := []zktest.Action{zktest.Drop, zktest.Drop, zktest.Delay, zktest.Delay, zktest.Answer, zktest.Withhold}
	if w.forcedExpiry {
		actions = append(actions, zktest.Expire, zktest.Expire)
	}
	r := rand.New(rand.NewPCG(w.seed, 6000))
	for range r.IntN(20) {
		w.plan.Add(zktest.Fault{
			Do: actions[r.IntN(len(actions))], After: r.IntN(2) == 0,
			Op: w.steps[r.IntN(len(w.steps))], Skip: r.IntN(12),
			For:  time.Duration(r.Int64N(int64(w.timeout))),
			Code: []int32{-4, -7}[r.IntN(2)],
		})
	}
}

func (w *waitWorld) trace(i int) *zkrecipes.Trace { return w.logTrace(i) }

func (w *waitWorld) startFaults(weather *sync.WaitGroup, calm <-chan struct{}) {
	for _, p := range w.processes {
		weather.Go(func() { p.injectFaults(calm) })
	}
	weather.Go(func() {
		<-calm
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faultsOver = true
	})
}

// strike is called with each change of what is waited for.
func (w *waitWorld) faultAtStep(c zktest.Change) {
	what := "set " + strconv.Quote(string(c.Data))
	if c.Created {
		what = "created"
	} else if c.Deleted {
		what = "deleted"
	}
	w.log.note("server: 0x%x %s %s", c.Zxid, c.Path, what)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faultsOver || w.rng.IntN(8) > 0 {
		return
	}
	if w.rng.IntN(2) == 0 {
		select {
		case w.processes[w.rng.IntN(len(w.processes))].faultNow <- struct{}{}:
		default:
		}
		return
	}
	for s := range w.pending { // any
		w.events.add("cancelled at a step")
		s.cancel()
		break
	}
}

// wait calls f, which may be cancelled; false if nobody begins to wait any more.
func (w *waitWorld) runCancellable(r *rand.Rand, path string, f func(ctx context.Context)) bool {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	switch how := r.IntN(10); {
	case how < 2:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(4*time.Second))))
	case how < 4:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond+8*w.latency))))
	}
	defer cancel()
	s := &pendingCall{path, cancel}
	w.mu.Lock()
	if w.stopping {
		w.mu.Unlock()
		return false
	}
	w.pending[s] = struct{}{}
	w.mu.Unlock()
	f(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, s)
	return true
}

// mayFail tells errors that a worker has to expect.
func (w *waitWorld) isExpected(ctx context.Context, p *process, life int, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return true
	case errors.Is(err, zkrecipes.ErrClosed):
		return p.ended(life)
	case errors.Is(err, zkrecipes.ErrEvicted):
		return w.operator
	}
	return errors.Is(err, zk.ErrSessionExpired)
}

// settle ends the waits that nobody will end: all who are left wait, and nowhere
// as many as are waited for.
func (w *waitWorld) unblock() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := map[string]int{}
	for s := range w.pending {
		at[s.path]++
	}
	if len(w.pending) < w.working {
		return
	}
	for path, n := range at {
		if n >= w.sizes[path] {
			return
		}
	}
	w.stopping = true
	for s := range w.pending {
		s.cancel()
	}
}

// gone notes that a worker is done.
func (w *waitWorld) workerDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working--
}

// evict deletes members of what is waited for, below the world's paths.
func (w *waitWorld) evictMembers(calm <-chan struct{}, below string) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.rawConn()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(6 * time.Second)))):
		case <-calm:
			return
		}
		parent := w.paths[r.IntN(len(w.paths))] + below
		members := slices.DeleteFunc(w.srv.Children(parent), func(name string) bool { return name == "ready" })
		if len(members) == 0 {
			continue
		}
		member := parent + "/" + members[r.IntN(len(members))]
		w.mu.Lock()
		w.operatorDeleted[member] = true
		w.mu.Unlock()
		w.log.note("operator: delete %s: %v", member, conn.Delete(member, -1))
		w.events.add("member deleted")
	}
}
