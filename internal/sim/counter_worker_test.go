package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/zkrecipes/zkrecipes"
)

// work adds to counters, sets, swaps and reads them. Sometimes it makes several calls at once.
func (w *counterWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, 2*w.rounds, w.pause) {
		path := w.paths[by.r.IntN(len(w.paths))]
		x := zkrecipes.NewCounter(by.c, path)
		together := 1
		if by.r.IntN(6) == 0 {
			together = 3
		}
		ops := make([]counterOp, together)
		for i := range ops {
			ops[i] = w.newOp(by.r, path)
		}
		if !w.try(by, path, func(ctx context.Context) error {
			var calls sync.WaitGroup
			for _, op := range ops {
				calls.Go(func() { w.check(ctx, by, w.call(ctx, x, op)) })
			}
			calls.Wait()
			return nil
		}) {
			return
		}
		if together > 1 {
			w.events.add("written together")
		}
	}
}

func (w *counterWorld) newOp(r *rand.Rand, path string) counterOp {
	op := counterOp{path: path, kind: []string{"add", "add", "add", "add", "set", "swap", "swap", "read"}[r.IntN(8)], a: r.Int64N(2_000_000) - 1_000_000}
	if op.kind == "swap" {
		op.b = r.Int64N(2_000_000)
	}
	return op
}

// call carries out op and notes what it returned. If that is uncertain, it may have been carried out.
func (w *counterWorld) call(ctx context.Context, x *zkrecipes.Counter, op counterOp) (err error) {
	if op.kind == "swap" { // for what was there a moment ago
		if op.a, err = x.Get(ctx); err != nil {
			return err
		}
	}
	op.call = w.log.tick()
	event := map[string]string{"add": "added", "set": "set", "swap": "swapped", "read": "read"}[op.kind]
	switch op.kind {
	case "add":
		op.value, err = x.Add(ctx, op.a)
	case "set":
		err = x.Set(ctx, op.a)
	case "swap":
		if op.swapped, err = x.CompareAndSet(ctx, op.a, op.b); !op.swapped {
			event = "not swapped"
		}
	case "read":
		op.value, err = x.Get(ctx)
	}
	op.ret = w.log.tick()
	w.log.note("%+v: %v", op, err)
	if op.unknown = errors.Is(err, zkrecipes.ErrUncertain); op.unknown {
		event = "uncertain"
	} else if err != nil {
		return err
	}
	w.events.add(event)
	w.note(op)
	return nil
}

func (w *counterWorld) isExpected(ctx context.Context, l life, err error) bool {
	return w.isExplained(ctx, l, err)
}
