package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// work waits at gates, looks at them, shuts and opens them.
func (w *gateWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range 2 * w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.current()
		g := zkrecipes.NewGate(c, path)
		op := []func(context.Context, *zkrecipes.Gate, string) error{w.callWait, w.callWait, w.callIsOpen, w.callShut, w.callShut, w.callOpen}[r.IntN(6)]
		if !w.runCancelable(r, path, func(ctx context.Context) {
			if err := op(ctx, g, path); err != nil {
				w.log.note("worker %d: %v", 10*p.i+j, err)
				if errors.Is(err, zk.ErrSessionExpired) || !w.isExpected(ctx, p, life, err) {
					w.log.violation("worker %d: %v", 10*p.i+j, err)
				}
			}
		}) {
			return
		}
	}
}

func (w *gateWorld) callWait(ctx context.Context, g *zkrecipes.Gate, path string) error {
	called := w.log.tick()
	err := g.Wait(ctx)
	ret := w.log.tick()
	w.log.note("waited at %s from %d to %d: %v", path, called, ret, err)
	switch {
	case err != nil:
		w.events.add("canceled")
	case !w.everOpen(true, path, called, ret):
		w.log.violation("%s: Wait returned nil (called at %d), and the gate was shut all the time", path, called)
	case w.everOpen(false, path, called, called):
		w.events.add("waited at a shut gate")
	default:
		w.events.add("waited")
	}
	return err
}

func (w *gateWorld) callIsOpen(ctx context.Context, g *zkrecipes.Gate, path string) error {
	called := w.log.tick()
	open, err := g.IsOpen(ctx)
	ret := w.log.tick()
	switch {
	case err != nil:
		return err
	case !w.everOpen(open, path, called, ret):
		w.log.violation("%s: IsOpen returned %v (called at %d), which was never so meanwhile", path, open, called)
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
	called := w.log.tick()
	err := f(ctx)
	ret := w.log.tick()
	w.log.note("%s %s from %d to %d: %v", what, path, called, ret, err)
	switch {
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.events.add("uncertain")
	case err != nil:
	case !w.everOpen(open, path, called, ret):
		w.log.violation("%s: %s (called at %d), which was never so meanwhile", path, what, called)
	default:
		w.events.add(what)
	}
	return err
}
