package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

func (w *worker) passBarrier(b *zkrecipes.Barrier, key string) {
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeBarrier, Key: key}
	w.tell(e)
	index, err := b.Wait(w.ctx)
	if err != nil {
		w.failed(e, err)
		return
	}
	e.Kind, e.Index = judge.Granted, index
	w.tell(e)
	w.sleep(w.ctx, 0, 200*time.Millisecond)
}

// visit enters a double barrier and leaves it.
func (w *worker) visit(d *zkrecipes.DoubleBarrier, key string) {
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeDouble, Key: key}
	w.tell(e)
	v, err := d.Enter(w.ctx)
	if err != nil {
		w.failed(e, err)
		return
	}
	e.Kind = judge.Granted
	w.tell(e)
	w.sleep(w.ctx, 0, 100*time.Millisecond)

	e.Kind, e.At = judge.Leaving, w.now() // before Err, as the process may be stopped
	if v.Err() != nil {
		e.Kind = judge.Gone
	}
	w.tell(e)
	leave := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeLeave, Key: key + judge.LeaveSuffix}
	w.tell(leave)
	if err := v.Leave(w.ctx); err != nil {
		w.failed(leave, err)
	} else {
		leave.Kind = judge.Granted
		w.tell(leave)
	}
	w.sleep(w.ctx, 0, 100*time.Millisecond)
}

func (w *worker) passGate(g *zkrecipes.Gate) {
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeGate, Key: gateKey}
	w.tell(e)
	if err := g.Wait(w.ctx); err != nil {
		w.failed(e, err)
		return
	}
	e.Kind = judge.Granted
	w.tell(e)
	w.sleep(w.ctx, 10*time.Millisecond, 100*time.Millisecond)
}

// operate shuts the gate for a while. It opens it again even if the run ends meanwhile.
func (w *worker) operate(g *zkrecipes.Gate) {
	select {
	case <-w.finish:
		<-w.ctx.Done()
		return
	default:
	}
	w.sleep(w.ctx, 100*time.Millisecond, 3*time.Second)
	w.turn(w.ctx, g.Shut, judge.Closing, judge.Shut)
	w.sleep(w.ctx, 100*time.Millisecond, 3*time.Second)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 10*time.Minute)
	defer cancel()
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
		if !errors.Is(err, zkrecipes.ErrUncertain) {
			w.check(gateKey, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}
