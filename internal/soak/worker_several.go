package main

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// lockAll takes several of the locks together, in any order, writes to the data of each, and
// releases them. Other workers take one of the locks.
func (w *worker) lockAll(locks []*zkrecipes.Mutex) {
	var chosen []*zkrecipes.Mutex
	for _, i := range w.rand.Perm(len(locks))[:2+w.rand.IntN(len(locks)-1)] {
		chosen = append(chosen, locks[i])
	}
	e := judge.Event{Recipe: judge.RecipeLockAll, Key: allKey}
	ls := acquire(w.ctx, w, func(ctx context.Context) (*zkrecipes.Leases, error) { return zkrecipes.LockAll(ctx, chosen...) }, e)
	if ls == nil {
		return
	}
	e.Kind = judge.Granted
	w.tell(e)
	var holds []*hold
	for _, l := range ls.All() {
		holds = append(holds, w.granted(l, judge.Event{Recipe: "lock", Key: l.Path()}))
	}
	for i, l := range ls.All() {
		holds[i].work(w.ctx)
		w.commit(l, l.Path())
	}
	for _, h := range holds {
		h.believe()
	}
	w.check(allKey, ls.Release())
	for _, h := range holds {
		h.over()
	}
	w.sleep(w.ctx, 0, restMost)
}

// useSlots takes one slot, or two, writes to the data of each in a fenced transaction, and
// gives them back.
func (w *worker) useSlots(s *zkrecipes.Semaphore) {
	k := 1
	if w.oneIn(4) {
		k = 2
	}
	e := judge.Event{Recipe: judge.RecipeSemaphore, Key: semaphoreKey}
	l := acquire(w.ctx, w, func(ctx context.Context) (*zkrecipes.SlotLease, error) { return s.AcquireN(ctx, k) }, e)
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
