package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// visitWorld is a world of double barriers.
type visitWorld struct {
	*gathering
	seen *visits

	mu    sync.Mutex
	calls []*entrance
}

// entrance is a call of Enter that succeeded, as its caller saw it.
type entrance struct {
	who         int
	path        string
	client      string
	called, ret int64
}

var visitBefalls = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step", "member deleted",
	"opened", "opened, and some had gone", "entered", "left", "left while others stay", "left again", "lost",
}

func newVisitWorld(seed uint64) *world {
	g, _ := gather(seed, func(n int) []string {
		return []string{
			"multi(create,setData)", "multi(delete,create,setData)", "multi(check,delete)", "multi(check,delete,delete)",
			"multi(delete)", "getData", "getChildren2", "exists", "sync",
		}
	}, "/app/visits/a", "/app/visits/b")
	w := &visitWorld{gathering: g}
	w.subject, w.seen = w, newVisits(g)
	return w.world
}

func (w *visitWorld) applied(c zktest.Change) {
	for _, path := range w.paths {
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.seen.applied(path, below, c)
			w.strike(c)
		}
	}
}

func (w *visitWorld) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.gathering.befall(weather, calm)
	if w.operator {
		weather.Go(func() { w.evict(calm, "") })
	}
}

// work is one worker's life: it enters, and leaves.
func (w *visitWorld) work(p *process, j int) {
	defer w.gone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.alive()
		d := zkrecipes.NewDoubleBarrier(c, path, w.n[path])
		var v *zkrecipes.Visit
		var e *entrance
		if !w.wait(r, path, func(ctx context.Context) {
			var err error
			if v, e, err = w.enter(ctx, p, life, 10*p.i+j, d, path); err != nil && !errors.Is(err, zkrecipes.ErrLost) && !w.mayFail(ctx, p, life, err) {
				w.h.violation("worker %d: %v", 10*p.i+j, err)
			}
		}) {
			return
		}
		if v != nil {
			w.stay(r, v)
			w.leave(r, p, life, v, e)
		}
	}
}

func (w *visitWorld) enter(ctx context.Context, p *process, life, who int, d *zkrecipes.DoubleBarrier, path string) (*zkrecipes.Visit, *entrance, error) {
	e := &entrance{who: who, path: path, client: identity(p.i, life), called: w.h.now()}
	v, err := d.Enter(ctx)
	e.ret = w.h.now()
	w.h.note("worker %d of %s: entered since %d at %s: %v", who, e.client, e.called, path, err)
	if err != nil {
		return nil, nil, err
	}
	w.befell.add("entered")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, e)
	return v, e, nil
}

// stay is what visitors do inside.
func (w *visitWorld) stay(r *rand.Rand, v *zkrecipes.Visit) {
	switch r.IntN(3) {
	case 0:
		time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
	case 1:
		select {
		case <-time.After(time.Duration(r.Int64N(int64(2 * w.timeout)))):
		case <-v.Context(w.ctx).Done():
		}
	}
}

// leave leaves, maybe with a context that ends, and then again or never.
func (w *visitWorld) leave(r *rand.Rand, p *process, life int, v *zkrecipes.Visit, e *entrance) {
	for tries := 0; ; tries++ {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		switch r.IntN(6) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(4*time.Second))))
		case 1:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond+8*w.latency))))
		}
		lost := v.Err()
		err := v.Leave(ctx)
		w.h.note("worker %d: left, having entered since %d: %v", e.who, e.called, err)
		cancelled := ctx.Err() != nil && errors.Is(err, ctx.Err())
		cancel()
		switch {
		case v.Err() == nil:
			w.h.violation("worker %d: inside after it has left", e.who)
		case err == nil && lost != nil && tries == 0:
			w.h.violation("worker %d: left, having been lost: %v", e.who, lost)
		case err == nil:
			w.befell.add("left")
			w.checkLeft(e)
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.befell.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && p.ended(life):
			return
		case !cancelled:
			w.h.violation("worker %d: leave: %v", e.who, err)
			return
		}
		w.befell.add("left while others stay")
		if r.IntN(2) == 0 {
			return
		}
		w.befell.add("left again")
	}
}

// with reports whether the call can have been that member: one that was, at one
// moment, one of as many as there are to be, or that was deleted by somebody and
// had not heard of it.
func (w *visitWorld) with(e *entrance, m *visitor) bool {
	if e.client != m.client || e.called > m.came {
		return false
	}
	w.gathering.mu.Lock()
	defer w.gathering.mu.Unlock()
	return m.stood > 0 && m.stood < e.ret || m.gone > 0 && m.gone < e.ret && w.evicted[e.path+"/"+m.name]
}

// checkLeft: those who entered by the same ready, or an earlier one, have gone.
func (w *visitWorld) checkLeft(e *entrance) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	var stays *visitor
	for _, m := range w.seen.came[e.path] {
		if !w.with(e, m) {
			continue
		}
		if stays = w.seen.awaits(e.path, m); stays == nil {
			return
		}
	}
	if stays != nil { // else it has not entered rightly
		w.h.violation("%s: worker %d has left, and %s is there", e.path, e.who, stays.name)
	}
}

func (w *visitWorld) rest() {
	for _, path := range w.paths {
		left := w.srv.Children(path)
		if len(left) > 1 || len(left) == 1 && left[0] != "ready" {
			w.h.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
		}
		w.again(path)
		w.nothingLeft(path)
		w.judge(path)
	}
}

// again has as many as there are to be enter and leave, when nothing befalls
// them.
func (w *visitWorld) again(path string) {
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // servers may lag all the same
	defer cancel()
	var all sync.WaitGroup
	for i := range w.n[path] {
		p := w.processes[i%len(w.processes)]
		all.Go(func() {
			c, life := p.alive()
			v, e, err := w.enter(ctx, p, life, 100+i, zkrecipes.NewDoubleBarrier(c, path, w.n[path]), path)
			if err == nil {
				if err = v.Leave(ctx); err == nil {
					w.checkLeft(e)
				}
			}
			if err != nil {
				w.h.violation("at rest: %v\n%s", err, w.srv.Tree())
			}
		})
	}
	all.Wait()
	time.Sleep(w.timeout)
}

// judge: each who was let in is a member that was one of n.
func (w *visitWorld) judge(path string) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	var calls []*entrance
	for _, e := range w.calls {
		if e.path == path {
			calls = append(calls, e)
		}
	}
	came := w.seen.came[path]
	if i := match(len(calls), len(came), func(i, j int) bool { return w.with(calls[i], came[j]) }); i >= 0 {
		w.h.violation("%s: worker %d has entered (called at %d), and was never one of %d", path, calls[i].who, calls[i].called, w.n[path])
	}
}
