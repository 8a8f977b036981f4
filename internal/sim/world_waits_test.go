package sim

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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
	sizes  map[string]int // members that a barrier waits for, by path; see size
	steps  []string       // shapes of the recipe's requests, at which faults are aimed
	others []fault        // beyond those of the processes
	lags   bool           // clients may move to servers that lag behind

	mu              sync.Mutex
	rng             *rand.Rand
	faultsOver      bool
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
		rng: rand.New(rand.NewPCG(seed, 5000)),
	}
	for _, path := range sc.paths {
		w.sizes[path] = 1 + r.IntN(min(4, sc.clients*sc.workers))
		w.steps = append(w.steps, steps(w.sizes[path])...)
	}
	return w, r
}

// fixed are the shapes of a recipe's requests, whatever the number of members.
func fixed(steps ...string) func(n int) []string { return func(int) []string { return steps } }

// operated lets the operator, if there is one, do that.
func (w *waitWorld) operated(all ...fault) {
	if w.operator {
		w.others = append(w.others, all...)
	}
}

// begin aims faults of the server at the steps of the recipe, and lets some worlds lag.
func (w *waitWorld) begin() {
	w.follow, w.stop = context.WithCancel(w.ctx)
	if w.noServerFaults {
		return
	}
	actions := []zktest.Action{zktest.Drop, zktest.Drop, zktest.Delay, zktest.Delay, zktest.Answer, zktest.Withhold}
	if w.forcedExpiry {
		actions = append(actions, zktest.Expire, zktest.Expire)
	}
	r := w.stream(6000)
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
	// zktest can lag only if the plan had such a fault when the server started.
	lag := func(f zktest.Fault) bool { return f.Do == zktest.Lag }
	if r := w.stream(8000); w.lags && r.IntN(2) == 0 && slices.ContainsFunc(w.plan.Faults(), lag) {
		w.plan.Add(zktest.Fault{Do: zktest.Lag, Times: -1, Behind: 1 + r.IntN(30), For: time.Duration(r.Int64N(int64(w.timeout)))})
	}
}

func (w *waitWorld) faults() []fault {
	all := append(w.others, func(stop <-chan struct{}) {
		<-stop
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faultsOver = true
	})
	for _, p := range w.processes {
		all = append(all, p.injectFaults)
	}
	return all
}

// changedBelow calls saw with a change below one of the paths, and then faultAtStep.
func (w *waitWorld) changedBelow(c zktest.Change, saw func(path, below string, c zktest.Change)) {
	for _, path := range w.paths {
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			saw(path, below, c)
			w.faultAtStep(c)
		}
	}
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

// try is tryOf for as many as the path is for at present.
func (w *waitWorld) try(by *worker, path string, f func(ctx context.Context) error) bool {
	return w.tryOf(by, path, w.size(path), f)
}

// tryOf calls f, which may wait for n such calls, with a context that may be canceled at
// any step, and checks that the error is one to expect. It returns false, without calling f,
// once workers are to begin no further calls.
func (w *waitWorld) tryOf(by *worker, path string, n int, f func(ctx context.Context) error) bool {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	switch how := by.r.IntN(10); {
	case how < 2:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(by.r.Int64N(int64(4*time.Second))))
	case how < 4:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(by.r.Int64N(int64(2*time.Millisecond+8*w.latency))))
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
	err := f(ctx)
	w.mu.Lock()
	delete(w.pending, s)
	w.mu.Unlock()
	w.check(ctx, by, err)
	return true
}

// made is a barrier or a semaphore that a worker has made for n, which the path may no longer have.
type made[B any] struct {
	it     B
	n      int
	agreed bool // with the path: it has had slots, or has changed n
}

// makers are what a worker has made in each life, by path.
type makers[B any] map[madeAt]*made[B]

type madeAt struct {
	life int
	path string
}

// use returns what a worker has made at a path. In one of so many cases it makes it anew.
func (m makers[B]) use(w *waitWorld, by *worker, path string, of int, anew func(c *zkrecipes.Client, path string, n int) B) *made[B] {
	at := madeAt{by.n, path}
	if m[at] == nil || by.r.IntN(of) == 0 {
		n := w.size(path)
		m[at] = &made[B]{it: anew(by.c, path, n), n: n}
	}
	return m[at]
}

func (w *waitWorld) isExpected(ctx context.Context, l life, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return true
	case errors.Is(err, zkrecipes.ErrClosed):
		return l.ended()
	case errors.Is(err, zkrecipes.ErrEvicted), errors.Is(err, zkrecipes.ErrSize):
		return w.operator
	case errors.Is(err, errs.ErrPlaceLost): // a deletion that nobody saw, before a server that closed a connection
		return w.operator
	}
	return errors.Is(err, zk.ErrSessionExpired) && errors.Is(err, zkrecipes.ErrLost)
}

// isExplained is isExpected for calls that the end of a session does not end. It counts why they failed.
func (w *waitWorld) isExplained(ctx context.Context, l life, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.events.add("canceled")
		return true
	case errors.Is(err, zkrecipes.ErrEvicted):
		w.events.add("evicted")
		return w.operator
	}
	return errors.Is(err, zkrecipes.ErrClosed) && l.ended()
}

// follow reads until the world is at rest, with one client of the process after the other, and
// calls saw with each value; first is true for the first one of a call. stream selects the
// random numbers that decide after which values it pauses.
func follow[T any](w *waitWorld, p *process, stream int, what string, read func(*zkrecipes.Client) iter.Seq2[T, error], saw func(v T, first bool)) {
	r := w.stream(stream + p.i)
	for w.follow.Err() == nil {
		l := p.current()
		first := true
		var end error
		for v, err := range read(l.c) {
			if end = err; err != nil {
				break
			}
			saw(v, first)
			first = false
			if r.IntN(8) == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
			}
		}
		w.checkEnded(l, what, end)
		w.events.add("watched again")
	}
}

// checkEnded checks that a follower's call has failed because follow or the client has ended.
func (w *waitWorld) checkEnded(l life, what string, err error) {
	w.log.note("%s of client %d: %v", what, l.p.i, err)
	if w.follow.Err() == nil && !(errors.Is(err, zkrecipes.ErrClosed) && l.ended()) {
		w.log.violation("%s of client %d: %v", what, l.p.i, err)
	}
}

// stopFollowers returns when all followers have ended.
func (w *waitWorld) stopFollowers() {
	w.stop()
	w.followers.Wait()
}

// unblock does nothing: where no call waits for what another worker may never do, each ends by
// itself, or else a wake-up was lost.
func (w *waitWorld) unblock() {}

// cancelAll ends the pending calls, and workers begin no others. w.mu must be held.
func (w *waitWorld) cancelAll() {
	w.stopping = true
	for s := range w.pending {
		s.cancel()
	}
}

// path returns the only one, where there is one.
func (w *waitWorld) path() string { return w.paths[0] }

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

// hasDeleted reports whether the operator has deleted a znode, or is about to.
func (w *waitWorld) hasDeleted(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.operatorDeleted[path]
}

// deleteAsOperator deletes a znode, and remembers before that it was the operator.
func (w *waitWorld) deleteAsOperator(conn *zk.Conn, path string) error {
	w.mu.Lock()
	w.operatorDeleted[path] = true
	w.mu.Unlock()
	err := conn.Delete(path, -1)
	w.log.note("operator: delete %s: %v", path, err)
	return err
}

// deleteAtOnce is like deleteAsOperator for several znodes, in one transaction that does more.
func (w *waitWorld) deleteAtOnce(conn *zk.Conn, paths []string, more ...any) error {
	var ops []any
	w.mu.Lock()
	for _, path := range paths {
		w.operatorDeleted[path] = true
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
	}
	w.mu.Unlock()
	_, err := conn.Multi(append(ops, more...)...)
	return err
}

// subtree returns the paths of all znodes below one, and last its own.
func (w *waitWorld) subtree(path string) (paths []string) {
	for _, name := range w.srv.Children(path) {
		paths = append(paths, w.subtree(path+"/"+name)...)
	}
	return append(paths, path)
}

// remakePaths is an operator that deletes one of the paths and all below it, and
// creates it anew for another number of members.
func (w *waitWorld) remakePaths(data func(n int) []byte) fault {
	return w.operate(3000, 20*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		path, n := w.paths[r.IntN(len(w.paths))], 1+r.IntN(4)
		err := w.deleteAtOnce(conn, w.subtree(path), &zk.CreateRequest{Path: path, Data: data(n), Acl: zk.WorldACL(zk.PermAll)})
		w.log.note("operator: remake %s for %d: %v", path, n, err)
		if err == nil {
			w.setSize(path, n)
			w.events.add("path remade")
		}
	})
}

// sizeData and noData are the data of a path with that size.
func sizeData(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
func noData(int) []byte     { return nil }

// evictMembers is an operator that deletes members, which stand at below under one
// of the paths.
func (w *waitWorld) evictMembers(below string) fault {
	return w.operate(2000, 6*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		parent := w.paths[r.IntN(len(w.paths))] + below
		members := slices.DeleteFunc(w.srv.Children(parent), func(name string) bool { return name == "ready" })
		if len(members) == 0 {
			return
		}
		_ = w.deleteAsOperator(conn, parent+"/"+members[r.IntN(len(members))]) // it may be gone
		w.events.add("member deleted")
	})
}

// disturbLines is an operator that deletes places in lines, which stand at below under the paths,
// and sets their data.
func (w *waitWorld) disturbLines(pause time.Duration, below string) fault {
	return w.operate(3500, pause, func(r *rand.Rand, conn *zk.Conn) {
		line := w.paths[r.IntN(len(w.paths))] + below
		places := slices.DeleteFunc(w.srv.Children(line), func(name string) bool { _, ok := parsePlace(name); return !ok })
		if len(places) > 0 {
			w.disturb(r, conn, line+"/"+places[r.IntN(len(places))])
		}
	})
}
