package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// canDowngrade reports whether a grant is a writer's that has not been downgraded.
func (w *lockWorld) canDowngrade(g *grant) bool {
	return g.lock.rlock != nil && g.fromWriter() && !g.downgraded
}

// readerPlace returns the path at which a writer's lease goes on as a reader.
func readerPlace(writers string) string { return strings.Replace(writers, "__WRIT__", "__READ__", 1) }

// markDowngrading notes that other readers may be granted from now on.
func (w *lockWorld) markDowngrading(g *grant) {
	if g.reading == nil {
		g.reading, g.downgradeCalled = w.holds.downgrading(g.held)
	}
}

// downgrade turns a writer into a reader. The context may be canceled, a commit or
// another Downgrade may run at the same time, and after an error it may try again.
func (w *lockWorld) downgrade(r *rand.Rand, g *grant) {
	if r.IntN(6) == 0 {
		w.checkDowngradeRefused(g)
	}
	w.markDowngrading(g)
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	switch r.IntN(5) {
	case 0:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
	case 1:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(w.timeout))))
	case 2: // canceled while the request is sent
		ctx, cancel = context.WithCancel(w.ctx)
		go cancel()
	}
	defer cancel()
	var beside sync.WaitGroup
	if r.IntN(4) == 0 {
		beside.Go(func() { w.commitWrite(g) })
	}
	var other error
	twice := r.IntN(4) == 0
	if twice {
		beside.Go(func() { other = g.lease.Downgrade(w.ctx) })
	}
	err := g.lease.Downgrade(ctx)
	beside.Wait()
	w.checkDowngrade(ctx, g, err, false)
	if twice {
		w.checkDowngrade(w.ctx, g, other, false)
	}
	if err != nil && r.IntN(2) == 0 {
		w.checkDowngrade(w.ctx, g, g.lease.Downgrade(w.ctx), false)
	}
}

// checkDowngradeRefused checks that Downgrade fails while the writer has re-entered,
// since the inner entry relies on being a writer.
func (w *lockWorld) checkDowngradeRefused(g *grant) {
	again, err := g.lock.lock(g.lease.Reentrant(w.ctx))
	if err != nil {
		return
	}
	for _, l := range []*zkrecipes.Lease{g.lease, again} {
		if l.Downgrade(w.ctx) == nil {
			w.log.violation("worker %d: downgraded 0x%x while a re-entry was open", g.worker, int64(g.token))
		}
	}
	_ = again.Release()
}

// checkDowngrade checks the state after a Downgrade that returned err. released
// says that the lease is released, or about to be.
func (w *lockWorld) checkDowngrade(ctx context.Context, g *grant, err error, released bool) {
	w.log.note("worker %d: downgrade of 0x%x: %v", g.worker, int64(g.token), err)
	switch {
	case err == nil:
	case errors.Is(err, zkrecipes.ErrLost) && g.lease.Err() != nil:
		w.events.add("downgrade of a lost lease")
		w.checkNotDeleted(err)
		return
	case released && errors.Is(err, zkrecipes.ErrReleased):
		return
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.events.add("downgrade canceled")
		return
	default:
		w.log.violation("worker %d: downgrade: %v", g.worker, err)
		return
	}
	if !g.downgraded {
		g.downgraded = true
		w.events.add("downgrade")
	}
	place := g.lease.Check().Path
	w.checkGranted(g.worker, place, true)
	switch {
	case place != readerPlace(g.place):
		w.log.violation("worker %d: the place %s became %s", g.worker, g.place, place)
	case w.observer.exists(g.place):
		w.log.violation("worker %d: %s is still there after the downgrade", g.worker, g.place)
	case g.lease.Token() != g.token:
		w.log.violation("worker %d: token 0x%x became 0x%x", g.worker, int64(g.token), int64(g.lease.Token()))
	case !w.forcedExpiry && !w.observer.exists(place) && g.lease.Err() == nil:
		w.log.violation("worker %d: %s is not there after the downgrade", g.worker, place)
	}
}
