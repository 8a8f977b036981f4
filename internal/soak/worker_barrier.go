package main

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

func (w *worker) passBarrier(b *zkrecipes.Barrier, key string) {
	if w.attempt(judge.Event{Recipe: judge.RecipeBarrier, Key: key}, func(e *judge.Event) (err error) {
		e.Index, err = b.Wait(w.ctx)
		return err
	}) {
		w.sleep(w.ctx, 0, 200*time.Millisecond)
	}
}

// visit enters a double barrier and leaves it.
func (w *worker) visit(d *zkrecipes.DoubleBarrier, key string) {
	e := judge.Event{Recipe: judge.RecipeDouble, Key: key}
	var v *zkrecipes.Visit
	if !w.attempt(e, func(*judge.Event) (err error) { v, err = d.Enter(w.ctx); return err }) {
		return
	}
	w.sleep(w.ctx, 0, 100*time.Millisecond)

	e.Kind, e.At = judge.Leaving, w.now() // before Err, as the process may be stopped
	if v.Err() != nil {
		e.Kind = judge.Gone
	}
	w.tell(e)
	leave := judge.Event{Recipe: judge.RecipeLeave, Key: key + judge.LeaveSuffix}
	w.attempt(leave, func(*judge.Event) error { return v.Leave(w.ctx) })
	w.sleep(w.ctx, 0, 100*time.Millisecond)
}

func (w *worker) passGate(g *zkrecipes.Gate) {
	if w.attempt(judge.Event{Recipe: judge.RecipeGate, Key: gateKey}, func(*judge.Event) error { return g.Wait(w.ctx) }) {
		w.sleep(w.ctx, 10*time.Millisecond, 100*time.Millisecond)
	}
}

// operate shuts the gate for a while. It opens it again even if the run ends meanwhile. A call that hangs
// keeps the process from resting.
func (w *worker) operate(g *zkrecipes.Gate) {
	if w.finished() {
		<-w.ctx.Done()
		return
	}
	w.sleep(w.ctx, 100*time.Millisecond, 3*time.Second)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 10*time.Minute)
	defer cancel()
	w.turn(ctx, g.Shut, judge.Closing, judge.Shut)
	w.sleep(w.ctx, 100*time.Millisecond, 3*time.Second)
	w.turn(ctx, g.Open, judge.Opening, judge.Opened)
}

// turn calls Shut or Open until it has succeeded.
func (w *worker) turn(ctx context.Context, call func(context.Context) error, before, after judge.Kind) {
	w.tell(judge.Event{Kind: before, Recipe: judge.RecipeGate, Key: gateKey})
	for ctx.Err() == nil {
		err := call(ctx)
		if err == nil {
			w.tell(judge.Event{Kind: after, Recipe: judge.RecipeGate, Key: gateKey})
			return
		}
		w.check(gateKey, err)
		pause(ctx, 100*time.Millisecond)
	}
}
