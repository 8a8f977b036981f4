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
	ls := acquire(w, func(ctx context.Context) (*zkrecipes.Leases, error) { return zkrecipes.LockAll(ctx, chosen...) }, e)
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
