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

// mayDowngrade tells grants that have not been downgraded.
func (w *lockWorld) mayDowngrade(g *grant) bool {
	return g.lock.downgrade != nil && g.exclusive() && !g.down
}

// readersPlace returns where the lease of a writer goes on as a reader.
func readersPlace(writers string) string { return strings.Replace(writers, "__WRIT__", "__READ__", 1) }

// goingDown notes that others may read from here on.
func (w *lockWorld) goingDown(g *grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g.reads = true
	if g.asked == 0 {
		g.asked = w.h.now()
	}
}

// downgrade makes a reader of a writer: with a context that may end, beside
// commits and beside itself, and again where it was left.
func (w *lockWorld) downgrade(r *rand.Rand, g *grant) {
	if r.IntN(6) == 0 {
		w.downgradeReentered(g)
	}
	w.goingDown(g)
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	switch r.IntN(5) {
	case 0:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
	case 1:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(w.timeout))))
	case 2: // with a context that ends while it is sent
		ctx, cancel = context.WithCancel(w.ctx)
		go cancel()
	}
	defer cancel()
	var beside sync.WaitGroup
	if r.IntN(4) == 0 {
		beside.Go(func() { w.write(g) })
	}
	var other error
	twice := r.IntN(4) == 0
	if twice {
		beside.Go(func() { other = g.lock.downgrade(w.ctx, g.l) })
	}
	err := g.lock.downgrade(ctx, g.l)
	beside.Wait()
	w.checkDowngrade(ctx, g, err, false)
	if twice {
		w.checkDowngrade(w.ctx, g, other, false)
	}
	if err != nil && r.IntN(2) == 0 {
		w.checkDowngrade(w.ctx, g, g.lock.downgrade(w.ctx, g.l), false)
	}
}

// downgradeReentered: who has entered again as a writer relies on it.
func (w *lockWorld) downgradeReentered(g *grant) {
	again, err := g.lock.lock(g.l.Reentrant(w.ctx))
	if err != nil {
		return
	}
	for _, l := range []*zkrecipes.Lease{g.l, again} {
		if g.lock.downgrade(w.ctx, l) == nil {
			w.h.violation("worker %d: downgraded 0x%x with a re-entry open", g.who, int64(g.token))
		}
	}
	_ = again.Release()
}

// checkDowngrade checks what is true after one that ended with err. released: so
// is the lease, or about to be.
func (w *lockWorld) checkDowngrade(ctx context.Context, g *grant, err error, released bool) {
	w.h.note("worker %d: downgrade of 0x%x: %v", g.who, int64(g.token), err)
	switch {
	case err == nil:
	case errors.Is(err, zkrecipes.ErrLost) && g.l.Err() != nil:
		w.befell.add("downgrade of a lost lease")
		w.deletedByNobody(err)
		return
	case released && errors.Is(err, zkrecipes.ErrReleased):
		return
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.befell.add("downgrade left")
		return
	default:
		w.h.violation("worker %d: downgrade: %v", g.who, err)
		return
	}
	if !g.down {
		g.down = true
		w.befell.add("downgrade")
		w.history.add(entry{lock: g.lock.path, who: g.who, op: downgraded, token: g.token, call: g.asked, ret: w.h.now()})
	}
	place := g.l.Check().Path
	w.turn(g.who, place, true)
	switch {
	case place != readersPlace(g.place):
		w.h.violation("worker %d: %s went on as %s", g.who, g.place, place)
	case w.lines.stands(g.place):
		w.h.violation("worker %d: %s stands after its downgrade", g.who, g.place)
	case g.l.Token() != g.token:
		w.h.violation("worker %d: token 0x%x has become 0x%x", g.who, int64(g.token), int64(g.l.Token()))
	case !w.forced && !w.lines.stands(place) && g.l.Err() == nil:
		w.h.violation("worker %d: %s is not there after the downgrade", g.who, place)
	}
}
