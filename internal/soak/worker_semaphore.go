package main

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// useSlots takes one slot, or two, writes to the data of each in a fenced transaction, and
// gives them back.
func (w *worker) useSlots(s *zkrecipes.Semaphore) {
	k := 1
	if w.oneIn(4) {
		k = 2
	}
	e := judge.Event{Recipe: judge.RecipeSemaphore, Key: semaphoreKey}
	l := acquire(w, func(ctx context.Context) (*zkrecipes.SlotLease, error) { return s.AcquireN(ctx, k) }, e)
	if l == nil {
		return
	}
	e.Slots = l.Slots()
	h := w.granted(l, e)
	h.work(w.ctx)
	var keys []string
	for _, slot := range e.Slots {
		keys = append(keys, slotKey(slot))
	}
	w.commit(l, keys...)
	h.believe()
	w.check(semaphoreKey, l.Release())
	h.over()
	w.sleep(w.ctx, 0, restMost)
}
