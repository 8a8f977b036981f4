package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// work adds to counters, sets, swaps and reads them. Sometimes it makes several calls at once.
func (w *counterWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range 2 * w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(w.pause()))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.current()
		x := zkrecipes.NewCounter(c, path)
		together := 1
		if r.IntN(6) == 0 {
			together = 3
		}
		ops := make([]counterOp, together)
		for i := range ops {
			ops[i] = w.newOp(r, path)
		}
		if !w.runCancelable(r, path, func(ctx context.Context) {
			var calls sync.WaitGroup
			for _, op := range ops {
				calls.Go(func() { w.call(ctx, p, life, x, op) })
			}
			calls.Wait()
		}) {
			return
		}
		if together > 1 {
			w.events.add("written together")
		}
	}
}

// pause returns for how long a worker rests between its calls, at most.
func (w *counterWorld) pause() time.Duration {
	if w.crowded {
		return 50 * time.Millisecond
	}
	return time.Second
}

func (w *counterWorld) newOp(r *rand.Rand, path string) counterOp {
	op := counterOp{path: path, kind: []string{"add", "add", "add", "add", "set", "swap", "swap", "read"}[r.IntN(8)], a: r.Int64N(2_000_000) - 1_000_000}
	if op.kind == "swap" {
		op.b = r.Int64N(2_000_000)
	}
	return op
}

// call carries out op and notes what it returned.
func (w *counterWorld) call(ctx context.Context, p *process, life int, x *zkrecipes.Counter, op counterOp) {
	if op.kind == "swap" { // for what was there a moment ago
		v, err := x.Get(ctx)
		if err != nil {
			w.failed(ctx, p, life, op, err)
			return
		}
		op.a = v
	}
	var err error
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
	if err != nil {
		w.failed(ctx, p, life, op, err)
		return
	}
	w.events.add(event)
	w.note(op)
}

// failed notes a call that failed. Only what is uncertain may have been carried out.
func (w *counterWorld) failed(ctx context.Context, p *process, life int, op counterOp, err error) {
	switch {
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.events.add("uncertain")
		op.unknown = true
		w.note(op)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.events.add("canceled")
	case errors.Is(err, zkrecipes.ErrEvicted) && w.operator:
		w.events.add("evicted")
	case errors.Is(err, zkrecipes.ErrClosed) && p.ended(life):
	default:
		w.log.violation("%+v: %v", op, err)
	}
}
