package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// gateWorld is a world of gates.
type gateWorld struct {
	*gathering

	mu    sync.Mutex
	turns map[string][]int64 // the moments at which a gate was shut, opened, shut..
}

var gateBefalls = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step",
	"shut", "opened", "waited", "waited at a shut gate", "cancelled", "seen open", "seen shut", "uncertain", "touched",
}

func newGateWorld(seed uint64) *world {
	g, _ := gather(seed, func(int) []string {
		return []string{"multi(create)", "multi(delete)", "getData", "exists", "sync"}
	}, "/app/gates/a", "/app/gates/b")
	w := &gateWorld{gathering: g, turns: map[string][]int64{}}
	w.subject = w
	return w.world
}

// applied is zktest.OnChange's.
func (w *gateWorld) applied(c zktest.Change) {
	if w.n[c.Path] == 0 {
		return
	}
	if c.Created || c.Deleted {
		w.mu.Lock()
		w.turns[c.Path] = append(w.turns[c.Path], w.h.now())
		w.mu.Unlock()
	}
	w.strike(c)
}

// was reports whether a gate was open, or shut, at a moment from one to another.
func (w *gateWorld) was(open bool, path string, from, to int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := true
	for _, moment := range w.turns[path] {
		if moment > to {
			break
		}
		if moment > from && state == open {
			return true
		}
		state = !state
	}
	return state == open
}

func (w *gateWorld) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.gathering.befall(weather, calm)
	if w.operator {
		weather.Go(func() { w.touch(calm) })
	}
}

// touch writes to gates, which opens none.
func (w *gateWorld) touch(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.bare()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(3 * time.Second)))):
		case <-calm:
			return
		}
		if _, err := conn.Set(w.paths[r.IntN(len(w.paths))], []byte("touched"), -1); err == nil {
			w.befell.add("touched")
		}
	}
}

// work is one worker's life: it waits at gates, looks at them and turns them.
func (w *gateWorld) work(p *process, j int) {
	defer w.gone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range 2 * w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.alive()
		g := zkrecipes.NewGate(c, path)
		op := []func(context.Context, *zkrecipes.Gate, string) error{w.pass, w.pass, w.look, w.shut, w.shut, w.open}[r.IntN(6)]
		if !w.wait(r, path, func(ctx context.Context) {
			if err := op(ctx, g, path); err != nil {
				w.h.note("worker %d: %v", 10*p.i+j, err)
				if errors.Is(err, zk.ErrSessionExpired) || !w.mayFail(ctx, p, life, err) {
					w.h.violation("worker %d: %v", 10*p.i+j, err)
				}
			}
		}) {
			return
		}
	}
}

func (w *gateWorld) pass(ctx context.Context, g *zkrecipes.Gate, path string) error {
	called := w.h.now()
	err := g.Wait(ctx)
	ret := w.h.now()
	w.h.note("waited at %s from %d to %d: %v", path, called, ret, err)
	switch {
	case err != nil:
		w.befell.add("cancelled")
	case !w.was(true, path, called, ret):
		w.h.violation("%s: passed (called at %d), and it was shut all the time", path, called)
	case w.was(false, path, called, called):
		w.befell.add("waited at a shut gate")
	default:
		w.befell.add("waited")
	}
	return err
}

func (w *gateWorld) look(ctx context.Context, g *zkrecipes.Gate, path string) error {
	called := w.h.now()
	open, err := g.IsOpen(ctx)
	ret := w.h.now()
	switch {
	case err != nil:
		return err
	case !w.was(open, path, called, ret):
		w.h.violation("%s: seen open=%v (asked at %d), which it never was meanwhile", path, open, called)
	case open:
		w.befell.add("seen open")
	default:
		w.befell.add("seen shut")
	}
	return nil
}

func (w *gateWorld) shut(ctx context.Context, g *zkrecipes.Gate, path string) error {
	return w.turn(ctx, "shut", g.Shut, path, false)
}

func (w *gateWorld) open(ctx context.Context, g *zkrecipes.Gate, path string) error {
	return w.turn(ctx, "opened", g.Open, path, true)
}

func (w *gateWorld) turn(ctx context.Context, what string, f func(context.Context) error, path string, open bool) error {
	called := w.h.now()
	err := f(ctx)
	ret := w.h.now()
	w.h.note("%s %s from %d to %d: %v", what, path, called, ret, err)
	switch {
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.befell.add("uncertain")
	case err != nil:
	case !w.was(open, path, called, ret):
		w.h.violation("%s: %s (called at %d), and it was not so meanwhile", path, what, called)
	default:
		w.befell.add(what)
	}
	return err
}

// settle opens the gates, once all who are left wait at shut ones.
func (w *gateWorld) settle() {
	if !w.stuck() {
		return
	}
	conn, done := w.bare()
	defer done()
	for _, path := range w.paths {
		w.h.note("everybody waits; %s is opened: %v", path, conn.Delete(path, -1))
	}
}

func (w *gateWorld) stuck() bool {
	w.gathering.mu.Lock()
	defer w.gathering.mu.Unlock()
	now := w.h.now()
	for s := range w.waiting {
		if len(w.waiting) < w.left || w.was(true, s.path, now, now) {
			return false
		}
	}
	w.over = w.left > 0
	return w.over
}

func (w *gateWorld) rest() {
	for _, path := range w.paths {
		parent := path[:strings.LastIndexByte(path, '/')]
		if left := w.srv.Children(parent); len(left) > len(w.paths) {
			w.h.violation("%s: left behind: %v", parent, left)
		}
	}
}
