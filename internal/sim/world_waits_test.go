package sim

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// waitWorld is a world in which workers wait for each other. Besides faults at
// random moments it has faults at the very moment the server has applied a change:
// a call is canceled, or a process gets a fault.
type waitWorld struct {
	*world
	sizes map[string]int // members that a barrier waits for, by path; see size
	steps []string       // shapes of the recipe's requests, at which faults are aimed

	mu              sync.Mutex
	rng             *rand.Rand
	faultsOver      bool
	working         int // workers that are not done
	pending         map[*pendingCall]struct{}
	stopping        bool            // workers begin no further calls
	operatorDeleted map[string]bool // paths of znodes that the operator has deleted, or is about to

	followers sync.WaitGroup     // what goes on until the world is at rest
	follow    context.Context    // of the followers
	stop      context.CancelFunc // ends follow
}

// pendingCall is a call that may be waiting.
type pendingCall struct {
	path   string
	n      int // of the members that it waits for
	cancel context.CancelFunc
}

// newWaitWorld returns a world with the first few of the paths, and its source of
// random numbers. steps returns the shapes of the requests of a recipe that waits
// for n members.
func newWaitWorld(seed uint64, steps func(n int) []string, paths ...string) (*waitWorld, *rand.Rand) {
	sc, r := newScenario(seed)
	sc.paths = paths[:1+r.IntN(len(paths))]
	sc.restarts = !sc.pauses && r.IntN(2) == 0
	if r.IntN(2) == 0 {
		sc.latency = time.Duration(1+r.IntN(5)) * time.Millisecond
	}
	w := &waitWorld{
		world: &world{scenario: sc}, sizes: map[string]int{}, pending: map[*pendingCall]struct{}{}, operatorDeleted: map[string]bool{},
		rng: rand.New(rand.NewPCG(seed, 5000)), working: sc.clients * sc.workers,
	}
	for _, path := range sc.paths {
		w.sizes[path] = 1 + r.IntN(min(4, w.working))
		w.steps = append(w.steps, steps(w.sizes[path])...)
	}
	return w, r
}

// begin aims faults of the server at the steps of the recipe.
func (w *waitWorld) begin() {
	w.follow, w.stop = context.WithCancel(w.ctx)
	if w.noServerFaults {
		return
	}
	actions := []zktest.Action{zktest.Drop, zktest.Drop, zktest.Delay, zktest.Delay, zktest.Answer, zktest.Withhold}
	if w.forcedExpiry {
		actions = append(actions, zktest.Expire, zktest.Expire)
	}
	r := rand.New(rand.NewPCG(w.seed, 6000))
	for range r.IntN(20) {
		fault := zktest.Fault{
			Do: actions[r.IntN(len(actions))], After: r.IntN(2) == 0,
			Op: w.steps[r.IntN(len(w.steps))], Skip: r.IntN(12),
			For:  time.Duration(r.Int64N(int64(w.timeout))),
			Code: []int32{-4, -7}[r.IntN(2)],
		}
		if fault.Do != zktest.Delay {
			fault.For = 0
		}
		if fault.Do != zktest.Answer {
			fault.Code = 0
		}
		w.plan.Add(fault)
	}
}

// lagBehind makes clients, in some worlds, move to servers that lag behind. zktest can
// lag only if the plan had such a fault when the server started.
func (w *waitWorld) lagBehind() {
	lags := func(f zktest.Fault) bool { return f.Do == zktest.Lag }
	if r := rand.New(rand.NewPCG(w.seed, 8000)); r.IntN(2) == 0 && slices.ContainsFunc(w.plan.Faults(), lags) {
		w.plan.Add(zktest.Fault{Do: zktest.Lag, Times: -1, Behind: 1 + r.IntN(30), For: time.Duration(r.Int64N(int64(w.timeout)))})
	}
}

func (w *waitWorld) trace(i int) *zkrecipes.Trace { return w.logTrace(i) }

func (w *waitWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	for _, p := range w.processes {
		faults.Go(func() { p.injectFaults(stop) })
	}
	faults.Go(func() {
		<-stop
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faultsOver = true
	})
}

// faultAtStep logs a change below the workload's paths, and sometimes cancels a
// pending call or injects a fault into a process right then.
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
	for s := range w.pending { // the first of a map: any
		w.events.add("canceled at a step")
		s.cancel()
		break
	}
}

// runCancelable is runCancelableOf for as many as the path is for at present.
func (w *waitWorld) runCancelable(r *rand.Rand, path string, f func(ctx context.Context)) bool {
	return w.runCancelableOf(r, path, w.size(path), f)
}

// runCancelableOf calls f, which may wait for n such calls, with a context that may be
// canceled at any step. It returns false, without calling f, once workers are to begin no
// further calls.
func (w *waitWorld) runCancelableOf(r *rand.Rand, path string, n int, f func(ctx context.Context)) bool {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	switch how := r.IntN(10); {
	case how < 2:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(4*time.Second))))
	case how < 4:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond+8*w.latency))))
	}
	defer cancel()
	s := &pendingCall{path, n, cancel}
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

// isExpected reports whether a worker has to expect an error.
func (w *waitWorld) isExpected(ctx context.Context, p *process, life int, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return true
	case errors.Is(err, zkrecipes.ErrClosed):
		return p.ended(life)
	case errors.Is(err, zkrecipes.ErrEvicted), errors.Is(err, zkrecipes.ErrSize):
		return w.operator
	case errors.Is(err, errs.ErrPlaceLost): // a deletion that nobody saw, before a server that closed a connection
		return w.operator
	}
	return errors.Is(err, zk.ErrSessionExpired) && errors.Is(err, zkrecipes.ErrLost)
}

// follow reads until the world is at rest, with one client of the process after the other, and
// calls saw with each value; first is true for the first one of a call. stream selects the
// random numbers that decide after which values it pauses.
func follow[T any](w *waitWorld, p *process, stream int, what string, read func(*zkrecipes.Client) iter.Seq2[T, error], saw func(v T, first bool)) {
	r := rand.New(rand.NewPCG(w.seed, uint64(stream+p.i)))
	for w.follow.Err() == nil {
		c, life := p.current()
		first := true
		var end error
		for v, err := range read(c) {
			if end = err; err != nil {
				break
			}
			saw(v, first)
			first = false
			if r.IntN(8) == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
			}
		}
		w.checkEnded(p, life, what, end)
		w.events.add("watched again")
	}
}

// checkEnded checks that a follower's call has failed because follow or the client has ended.
func (w *waitWorld) checkEnded(p *process, life int, what string, err error) {
	w.log.note("%s of client %d: %v", what, p.i, err)
	if w.follow.Err() == nil && !(errors.Is(err, zkrecipes.ErrClosed) && p.ended(life)) {
		w.log.violation("%s of client %d: %v", what, p.i, err)
	}
}

// stopFollowers returns when all followers have ended.
func (w *waitWorld) stopFollowers() {
	w.stop()
	w.followers.Wait()
}

// unblock cancels all pending calls if they would wait forever: every worker that
// is not done is waiting, and no path has as many waiting as it needs.
func (w *waitWorld) unblock() {
	w.mu.Lock()
	defer w.mu.Unlock()
	type group struct {
		path string
		n    int
	}
	at := map[group]int{}
	for s := range w.pending {
		at[group{s.path, s.n}]++
	}
	if len(w.pending) < w.working {
		return
	}
	for g, there := range at {
		if there >= g.n {
			return
		}
	}
	w.stopping = true
	for s := range w.pending {
		s.cancel()
	}
}

// workerDone notes that a worker is done.
func (w *waitWorld) workerDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working--
}

// size returns how many members the barrier waits for at present.
func (w *waitWorld) size(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizes[path]
}

func (w *waitWorld) setSize(path string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes[path] = n
}

// remakePaths is an operator that deletes one of the paths and all below it, and
// creates it anew for another number of members.
func (w *waitWorld) remakePaths(stop <-chan struct{}, data func(n int) []byte) {
	w.operate(3000, 20*time.Second, stop, func(r *rand.Rand, conn *zk.Conn) {
		path, n := w.paths[r.IntN(len(w.paths))], 1+r.IntN(4)
		var ops []any
		var add func(path string)
		add = func(path string) {
			for _, name := range w.srv.Children(path) {
				add(path + "/" + name)
			}
			w.mu.Lock()
			w.operatorDeleted[path] = true
			w.mu.Unlock()
			ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
		}
		add(path)
		ops = append(ops, &zk.CreateRequest{Path: path, Data: data(n), Acl: zk.WorldACL(zk.PermAll)})
		_, err := conn.Multi(ops...)
		w.log.note("operator: remake %s for %d: %v", path, n, err)
		if err == nil {
			w.setSize(path, n)
			w.events.add("path remade")
		}
	})
}

// evictMembers is an operator that deletes members, which stand at below under one
// of the paths.
func (w *waitWorld) evictMembers(stop <-chan struct{}, below string) {
	w.operate(2000, 6*time.Second, stop, func(r *rand.Rand, conn *zk.Conn) {
		parent := w.paths[r.IntN(len(w.paths))] + below
		members := slices.DeleteFunc(w.srv.Children(parent), func(name string) bool { return name == "ready" })
		if len(members) == 0 {
			return
		}
		member := parent + "/" + members[r.IntN(len(members))]
		w.mu.Lock()
		w.operatorDeleted[member] = true
		w.mu.Unlock()
		w.log.note("operator: delete %s: %v", member, conn.Delete(member, -1))
		w.events.add("member deleted")
	})
}

// disturbLines is an operator that deletes places in lines, which stand at below under the paths,
// and sets their data.
func (w *waitWorld) disturbLines(stop <-chan struct{}, pause time.Duration, below string) {
	w.operate(3500, pause, stop, func(r *rand.Rand, conn *zk.Conn) {
		line := w.paths[r.IntN(len(w.paths))] + below
		places := slices.DeleteFunc(w.srv.Children(line), func(name string) bool { _, ok := parsePlace(name); return !ok })
		if len(places) > 0 {
			w.disturb(r, conn, line+"/"+places[r.IntN(len(places))])
		}
	})
}
