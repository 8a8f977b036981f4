package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// gateWorld is the workload of Gate.
type gateWorld struct {
	*waitWorld
	open *history[string, bool] // whether each gate was open, by path
}

var gateEvents = []string{
	"canceled at a step", "shut", "opened", "waited", "waited at a shut gate", "canceled", "seen open", "seen shut", "uncertain", "written to",
}

func newGateWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, fixed("create2", "delete", "getData", "exists", "sync"), "/app/gates/a", "/app/gates/b")
	w := &gateWorld{waitWorld: g, open: newHistory[string](true)}
	w.operated(w.touchGates())
	return w.with(w)
}

func (w *gateWorld) onChange(c zktest.Change) {
	if w.sizes[c.Path] == 0 {
		return
	}
	if c.Created || c.Deleted {
		w.open.add(c.Path, c.Deleted)
	}
	w.faultAtStep(c)
}

// isExpected leaves out that the session has expired: calls go on in the next one.
func (w *gateWorld) isExpected(ctx context.Context, l life, err error) bool {
	return !errors.Is(err, zk.ErrSessionExpired) && w.waitWorld.isExpected(ctx, l, err)
}

// touchGates is an operator that writes to the znodes of gates, which opens none.
func (w *gateWorld) touchGates() fault {
	return w.operate(2000, 3*time.Second, func(r *rand.Rand, conn *zk.Conn) {
		if _, err := conn.Set(w.paths[r.IntN(len(w.paths))], []byte("touched"), -1); err == nil {
			w.events.add("written to")
		}
	})
}

// unblock opens the gates if every worker that is not done waits at a shut one.
func (w *gateWorld) unblock() {
	if !w.allStuck() {
		return
	}
	conn, done := w.rawConn()
	defer done()
	for _, path := range w.paths {
		w.log.note("all workers wait; open %s: %v", path, conn.Delete(path, -1))
	}
}

// allStuck reports whether every worker that is not done waits at a shut gate, and
// if so lets workers begin no further calls.
func (w *gateWorld) allStuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	working := int(w.working.Load())
	for s := range w.pending {
		if open, _ := w.open.now(s.path); open || len(w.pending) < working {
			return false
		}
	}
	w.stopping = working > 0
	return w.stopping
}

func (w *gateWorld) checkAtRest() {
	for _, path := range w.paths {
		parent := path[:strings.LastIndexByte(path, '/')]
		if left := w.srv.Children(parent); len(left) > len(w.paths) {
			w.log.violation("%s: left behind: %v", parent, left)
		}
	}
}

// work waits at gates, looks at them, shuts and opens them.
func (w *gateWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, 2*w.rounds, 2*time.Second) {
		path := w.paths[by.r.IntN(len(w.paths))]
		g := zkrecipes.NewGate(by.c, path)
		op := []func(context.Context, *zkrecipes.Gate, string) error{w.callWait, w.callWait, w.callIsOpen, w.callShut, w.callShut, w.callOpen}[by.r.IntN(6)]
		if !w.try(by, path, func(ctx context.Context) error { return op(ctx, g, path) }) {
			return
		}
	}
}

func (w *gateWorld) callWait(ctx context.Context, g *zkrecipes.Gate, path string) error {
	open, called := w.open.now(path)
	err := g.Wait(ctx)
	n := w.open.find(path, true, called)
	w.log.note("waited at %s since state %d: %v", path, called, err)
	switch {
	case err != nil:
		w.events.add("canceled")
	case n < 0:
		w.log.violation("%s: Wait returned nil (called in state %d), and the gate was shut all the time", path, called)
	case !open:
		w.events.add("waited at a shut gate")
	default:
		w.events.add("waited")
	}
	return err
}

func (w *gateWorld) callIsOpen(ctx context.Context, g *zkrecipes.Gate, path string) error {
	_, called := w.open.now(path)
	open, err := g.IsOpen(ctx)
	n := w.open.find(path, open, called)
	switch {
	case err != nil:
		return err
	case n < 0:
		w.log.violation("%s: IsOpen returned %v (called in state %d), which was never so meanwhile", path, open, called)
	case open:
		w.events.add("seen open")
	default:
		w.events.add("seen shut")
	}
	return nil
}

func (w *gateWorld) callShut(ctx context.Context, g *zkrecipes.Gate, path string) error {
	return w.callFlip(ctx, "shut", g.Shut, path, false)
}

func (w *gateWorld) callOpen(ctx context.Context, g *zkrecipes.Gate, path string) error {
	return w.callFlip(ctx, "opened", g.Open, path, true)
}

func (w *gateWorld) callFlip(ctx context.Context, what string, f func(context.Context) error, path string, open bool) error {
	_, called := w.open.now(path)
	err := f(ctx)
	n := w.open.find(path, open, called)
	w.log.note("%s %s since state %d: %v", what, path, called, err)
	switch {
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.events.add("uncertain")
	case err != nil:
	case n < 0:
		w.log.violation("%s: %s (called in state %d), which was never so meanwhile", path, what, called)
	default:
		w.events.add(what)
	}
	return err
}
