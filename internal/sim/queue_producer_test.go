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
	r := w.stream(100 + 10*p.i + j)
	for round := range 2 * w.rounds {
		if pause := time.Duration(r.Int64N(int64(2 * time.Second))); !w.bursts || r.IntN(4) == 0 {
			time.Sleep(pause)
		}
		by := &worker{p.current(), 10*p.i + j, r}
		opts := w.options()
		if !w.someUnbounded || r.IntN(2) == 0 {
			opts.MaxLen = w.maxLen
		}
		q := zkrecipes.NewQueue(by.c, w.path, opts)
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
		if !w.try(by, w.path, func(ctx context.Context) error {
			w.callPut(ctx, q, a)
			switch {
			case tooMany && a.err == nil:
				w.log.violation("worker %d.%d: put more items than MaxLen", p.i, j)
			case !tooMany && !errors.Is(a.err, zkrecipes.ErrUncertain):
				w.check(ctx, by, a.err)
			}
			if r.IntN(8) == 0 {
				w.callItems(ctx, by, q)
			}
			return w.manage(ctx, r, q, a)
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
func (w *queueWorld) callItems(ctx context.Context, by *worker, q *zkrecipes.Queue) {
	var shown []string
	for e, err := range q.Items(ctx) {
		if err == nil {
			shown = append(shown, string(e.ID))
		} else if !errors.Is(err, zkrecipes.ErrUnused) {
			w.check(ctx, by, err)
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

// removeCall is a call of Remove, Bury, Purge or Redrive, as its caller saw it.
type removeCall struct {
	what string
	id   zkrecipes.ItemID // of Remove and Bury
	n    int              // how many items it has removed or moved
	err  error
}

// manage removes or buries an item of a put, purges the queue, or moves dead letters back, now and
// then.
func (w *queueWorld) manage(ctx context.Context, r *rand.Rand, q *zkrecipes.Queue, a *putCall) error {
	call := &removeCall{}
	switch what := r.IntN(12); {
	case (what == 0 || what == 5 || what == 6) && len(a.ids) > 0:
		call.what, call.id = "bury", a.ids[r.IntN(len(a.ids))]
		if what == 0 {
			call.what = "remove"
		}
	case what == 1 && r.IntN(3) == 0:
		call.what = "purge"
	case what >= 2 && what <= 4:
		call.what = "redrive"
	default:
		return nil
	}
	w.mu.Lock()
	w.removals = append(w.removals, call)
	w.mu.Unlock()
	switch call.what {
	case "remove":
		if call.err = q.Remove(ctx, call.id); call.err == nil {
			call.n = 1
		}
	case "bury":
		if call.err = q.Bury(ctx, call.id); call.err == nil {
			call.n = 1
		}
	case "purge":
		call.n, call.err = q.Purge(ctx)
		w.events.add("purged")
	case "redrive":
		call.n, call.err = q.Redrive(ctx, 1+r.IntN(3))
	}
	w.log.note("%s %s: %d %v", call.what, call.id, call.n, call.err)
	if errors.Is(call.err, zkrecipes.ErrUncertain) || errors.Is(call.err, zkrecipes.ErrItemGone) || errors.Is(call.err, zkrecipes.ErrItemTaken) {
		return nil
	}
	return call.err
}

// checkRemovals checks that as many items were removed, and as many dead letters moved
// back, as the calls have returned, and which of them if that is known.
func (w *queueWorld) checkRemovals() {
	known, uncertain := map[string]int{}, map[string]bool{}
	for _, call := range w.removals {
		kind := call.what
		if kind == "purge" {
			kind = "remove"
		}
		known[kind] += call.n
		uncertain[kind] = uncertain[kind] || errors.Is(call.err, zkrecipes.ErrUncertain)
		done := func(it *item) bool {
			return it.id == string(call.id) && (call.what == "bury" && it.buried || call.what == "remove" && (it.removed || it.deletedByOperator))
		}
		if call.id != "" && call.err == nil && !slices.ContainsFunc(w.observer.queue.items, done) {
			w.log.violation("%s returned nil, and %s is not gone by that", call.what, call.id)
		}
	}
	seen, operator := map[string]int{}, map[string]int{}
	for _, it := range w.observer.queue.items {
		if it.deletedByOperator { // or by a call while the operator was at it
			operator["remove"]++
		}
		if it.removed {
			seen["remove"]++
		}
		if it.redriven {
			seen["redrive"]++
		}
		if it.buried {
			seen["bury"]++
		}
	}
	for _, it := range w.observer.deadLetters.items {
		if it.removed {
			seen["letter"]++
		}
	}
	for _, kind := range []string{"remove", "redrive", "bury"} {
		if n := seen[kind]; n+operator[kind] < known[kind] || n > known[kind] && !uncertain[kind] {
			w.log.violation("%s: calls have returned %d, and the server did %d", kind, known[kind], n)
		}
	}
	if seen["letter"] != seen["redrive"] {
		w.log.violation("%d dead letters were removed, and %d items put for them", seen["letter"], seen["redrive"])
	}
}
