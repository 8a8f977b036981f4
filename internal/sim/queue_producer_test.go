package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// putCall is a call of Put or PutAll, as its caller saw it.
type putCall struct {
	data        []string
	called, ret int64
	ids         []zkrecipes.ItemID
	err         error
}

func (w *queueWorld) work(p *process, j int) {
	defer w.workerDone()
	if w.roles[p.i*w.workers+j] == "consumer" {
		w.consume(p, j)
		return
	}
	w.produce(p, j)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.producers--
}

// produce puts items, one or a few at a time.
func (w *queueWorld) produce(p *process, j int) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for round := range 2 * w.rounds {
		if pause := time.Duration(r.Int64N(int64(2 * time.Second))); !w.bursts || r.IntN(4) == 0 {
			time.Sleep(pause)
		}
		c, life := p.current()
		opts := w.options()
		if !w.someUnbounded || r.IntN(2) == 0 {
			opts.MaxLen = w.maxLen
		}
		q := zkrecipes.NewQueue(c, w.path, opts)
		a := &putCall{data: []string{fmt.Sprintf("%d.%d.%d", p.i, j, round)}}
		if r.IntN(4) == 0 {
			a.data = append(a.data, a.data[0]+"+", a.data[0]+"++")[:2+r.IntN(2)]
			if w.bursts && opts.MaxLen == 0 {
				for i := range r.IntN(8) {
					a.data = append(a.data, fmt.Sprintf("%s+%d", a.data[0], i))
				}
			}
		}
		tooMany := opts.MaxLen > 0 && len(a.data) > opts.MaxLen
		if !w.runCancelable(r, w.path, func(ctx context.Context) {
			w.callPut(ctx, q, a)
			switch {
			case tooMany && a.err == nil:
				w.log.violation("worker %d.%d: put more items than MaxLen", p.i, j)
			case tooMany, a.err == nil, errors.Is(a.err, zkrecipes.ErrUncertain):
			case !w.isExpected(ctx, p, life, a.err):
				w.log.violation("worker %d.%d: %v", p.i, j, a.err)
			}
			if r.IntN(8) == 0 {
				w.callItems(ctx, q, p, life)
			}
			if err := w.manage(ctx, r, q, a); err != nil && !w.isExpected(ctx, p, life, err) {
				w.log.violation("worker %d.%d: %v", p.i, j, err)
			}
		}) {
			return
		}
	}
}

func (w *queueWorld) callPut(ctx context.Context, q *zkrecipes.Queue, a *putCall) {
	w.mu.Lock()
	w.puts = append(w.puts, a)
	w.mu.Unlock()
	a.called = w.log.tick()
	if len(a.data) == 1 {
		var id zkrecipes.ItemID
		if id, a.err = q.Put(ctx, []byte(a.data[0])); id != "" {
			a.ids = append(a.ids, id)
		}
	} else {
		var data [][]byte
		for _, d := range a.data {
			data = append(data, []byte(d))
		}
		a.ids, a.err = q.PutAll(ctx, data...)
	}
	a.ret = w.log.tick()
	w.log.note("put %q from %d: %v %v", a.data, a.called, a.ids, a.err)
	switch {
	case errors.Is(a.err, zkrecipes.ErrUncertain):
		w.events.add("put uncertain")
	case a.err != nil && ctx.Err() == nil:
		w.events.add("put refused")
	case len(a.data) > 1:
		w.events.add("batch put")
	default:
		w.events.add("put")
	}
}

// callItems lists the items, and checks that they come in the order in which they
// were put.
func (w *queueWorld) callItems(ctx context.Context, q *zkrecipes.Queue, p *process, life int) {
	var shown []string
	for e, err := range q.Items(ctx) {
		if err == nil {
			shown = append(shown, string(e.ID))
		} else if !errors.Is(err, zkrecipes.ErrUnused) && !w.isExpected(ctx, p, life, err) {
			w.log.violation("list: %v", err)
		}
	}
	w.events.add("listed")
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	at := 0
	for _, id := range shown {
		i := slices.IndexFunc(w.observer.queue.items[at:], func(it *item) bool { return it.id == id })
		if i < 0 && w.observer.queueDeletedAt == 0 {
			w.log.violation("Items returned %v, which is not the order in which they were put", shown)
			return
		}
		at += i + 1
	}
}
