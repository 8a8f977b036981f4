package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/zkrecipes/zkrecipes"
)

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
	switch r.IntN(12) {
	case 0:
		if len(a.ids) == 0 {
			return nil
		}
		call.what, call.id = "remove", a.ids[r.IntN(len(a.ids))]
	case 5, 6:
		if len(a.ids) == 0 {
			return nil
		}
		call.what, call.id = "bury", a.ids[r.IntN(len(a.ids))]
	case 1:
		if r.IntN(3) > 0 {
			return nil
		}
		call.what = "purge"
	case 2, 3, 4:
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
		gone := slices.ContainsFunc(w.observer.queue.items, func(it *item) bool { return it.id == string(call.id) && (it.removed || it.deletedByOperator) })
		if call.what == "remove" && call.err == nil && !gone {
			w.log.violation("Remove returned nil, and %s was not removed", call.id)
		}
		buried := slices.ContainsFunc(w.observer.queue.items, func(it *item) bool { return it.id == string(call.id) && it.buried })
		if call.what == "bury" && call.err == nil && !buried {
			w.log.violation("Bury returned nil, and %s was not buried", call.id)
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
