package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// grant is a lease, and what its worker knows of it.
type grant struct {
	who    int
	l      *zkrecipes.Lease
	lock   lock
	called int64           // when it was asked for
	token  zkrecipes.Token // at the grant, as the place is
	place  string
	asked  int64 // when its first downgrade was, 0: never
	down   bool  // it is known to be done
	// reads: its holder is a reader, or may have become one; lockWorld.mu guards it.
	reads bool
}

// work is one worker's life: take a lock, hold it, give it back.
func (w *lockWorld) work(p *process, j int) {
	c := p.client()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	who := 10*p.i + j
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		m := w.of(c, w.paths[r.IntN(len(w.paths))])
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		how := r.IntN(10)
		switch {
		case how < 2:
			ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(4*time.Second))))
		case how < 3:
			ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
		}
		reads := m.rlock != nil && r.IntN(2) == 0
		get := m.lock
		switch {
		case reads && how == 9:
			get = m.tryRLock
		case reads:
			get = m.rlock
		case how == 9:
			get = m.tryLock
		}
		g, err := w.get(ctx, who, m, get, reads)
		if err != nil {
			cancel()
			w.h.note("worker %d: %v", who, err)
			if !w.mayFail(ctx, err) {
				w.h.violation("worker %d: %v", who, err)
			}
			if w.ctx.Err() != nil {
				return
			}
			continue
		}
		w.hold(r, g)
		if w.mayDowngrade(g) && r.IntN(2) == 0 {
			w.downgrade(r, g)
			w.hold(r, g)
		}
		w.release(r, g)
		cancel()
	}
}

// mayFail tells errors that a worker has to expect.
func (w *lockWorld) mayFail(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()),
		errors.Is(err, zkrecipes.ErrLocked),
		w.operator && errors.Is(err, zkrecipes.ErrEvicted),
		w.counter && errors.Is(err, zkrecipes.ErrExhausted):
		return true
	}
	return false
}

// get takes a lock, and checks what must be true at that moment.
func (w *lockWorld) get(ctx context.Context, who int, m lock, get way, reads bool) (*grant, error) {
	called := w.h.now()
	l, err := get(ctx)
	if err != nil {
		return nil, err
	}
	g := &grant{who: who, l: l, lock: m, called: called, token: l.Token(), place: l.Check().Path, reads: reads}
	w.h.note("worker %d: granted %s 0x%x reads=%v", who, m.path, int64(g.token), reads)
	w.turn(who, g.place, reads)
	if err := l.Err(); err != nil && strings.Contains(err.Error(), "no answer from the servers") {
		w.h.violation("worker %d: granted 0x%x after the session's time: %v", who, int64(g.token), err)
	}
	w.mu.Lock()
	for other := range w.holding {
		switch {
		case other.lock.path != m.path || other.l.Err() != nil || w.forced || l.Err() != nil:
		case other.reads && reads:
			w.befell.add("readers together")
		default:
			w.h.violation("%s: worker %d is granted 0x%x while 0x%x holds", m.path, who, int64(g.token), int64(other.token))
		}
	}
	w.holding[g] = struct{}{}
	w.mu.Unlock()
	op := asWriter
	if reads {
		op = asReader
	}
	w.history.add(entry{lock: m.path, who: who, op: op, token: g.token, call: called, ret: w.h.now()})
	return g, nil
}

// hold does what holders do.
func (w *lockWorld) hold(r *rand.Rand, g *grant) {
	for range r.IntN(3) {
		switch r.IntN(5) {
		case 0:
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(2 * w.timeout))))
		case 2, 3:
			w.write(g)
		case 4:
			w.reenter(r, g)
		}
	}
}

// write makes a write that is to be refused where the lock is not held.
func (w *lockWorld) write(g *grant) {
	data := "/data-" + g.lock.path[strings.LastIndexByte(g.lock.path, '/')+1:]
	ctx, cancel := context.WithTimeout(w.ctx, 2*w.timeout)
	defer cancel()
	rs, err := g.l.Commit(ctx, &zk.SetDataRequest{Path: data, Data: strconv.AppendInt(nil, int64(g.token), 16), Version: -1})
	if errors.Is(err, zk.ErrNoNode) {
		_, err = g.l.Commit(ctx, &zk.CreateRequest{Path: data})
	} else if err == nil {
		w.history.commit(g.lock.path, committed{rs[0].Stat.Version, g.token, g.exclusive() && g.asked == 0})
	}
	w.h.note("worker %d: commit under 0x%x: %v", g.who, int64(g.token), err)
	if errors.Is(err, zkrecipes.ErrLost) && g.l.Err() == nil {
		w.h.violation("worker %d: a commit says %v, and 0x%x is held", g.who, err, int64(g.token))
	}
}

// exclusive reports whether the grant was a writer's.
func (g *grant) exclusive() bool { return !strings.Contains(g.place, "__READ__") }

// reenter enters again, or does not, as who may and who may not.
func (w *lockWorld) reenter(r *rand.Rand, g *grant) {
	enter, upgrade := g.lock.lock, g.down || !g.exclusive()
	if g.lock.rlock != nil && r.IntN(2) == 0 {
		enter, upgrade = g.lock.rlock, false
	}
	lost := g.l.Err() != nil
	again, err := enter(g.l.Reentrant(w.ctx))
	switch {
	case err == nil && lost:
		w.h.violation("worker %d: re-entered on a lost lease", g.who)
	case err == nil && upgrade:
		w.h.violation("worker %d: a reader has become a writer", g.who)
	case upgrade && errors.Is(err, zkrecipes.ErrUpgrade):
	case g.asked > 0 && !g.down && errors.Is(err, zkrecipes.ErrUpgrade): // about to become a reader
	case err == nil:
		if again.Token() != g.token {
			w.h.violation("worker %d: re-entered 0x%x with token 0x%x", g.who, int64(g.token), int64(again.Token()))
		}
		if err := again.Release(); err != nil && g.l.Err() == nil {
			w.h.violation("worker %d: release of a re-entry: %v", g.who, err)
		}
	case g.l.Err() == nil:
		w.h.violation("worker %d: cannot re-enter: %v", g.who, err)
	}

	// A context of the holder: to wait with it would be for ever.
	if _, err = enter(g.l.Context(w.ctx)); g.l.Err() == nil && !errors.Is(err, zkrecipes.ErrDeadlock) && !errors.Is(err, zkrecipes.ErrUpgrade) {
		w.h.violation("worker %d: waits for itself: %v", g.who, err)
	}
	if g.exclusive() || r.IntN(2) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.l.Context(w.ctx), w.timeout)
	defer cancel()
	other, err := w.get(ctx, g.who, g.lock, g.lock.tryRLock, true)
	if err == nil {
		w.release(r, other)
	} else if !w.mayFail(ctx, err) && g.l.Err() == nil {
		w.h.violation("worker %d: beside itself: %v", g.who, err)
	}
}

func (w *lockWorld) release(r *rand.Rand, g *grant) {
	w.mu.Lock()
	delete(w.holding, g)
	w.mu.Unlock()
	twice, late := r.IntN(8) == 0, w.mayDowngrade(g) && r.IntN(6) == 0
	releasing := w.h.now()
	var other error
	var wg sync.WaitGroup
	if late {
		w.befell.add("downgrade beside a release")
		w.goingDown(g)
		wg.Go(func() { w.checkDowngrade(w.ctx, g, g.lock.downgrade(w.ctx, g.l), true) })
	}
	if twice {
		wg.Go(func() { other = g.l.Release() })
	}
	err := g.l.Release()
	wg.Wait()
	w.h.note("worker %d: release of 0x%x: %v", g.who, int64(g.token), err)
	switch {
	case twice && !errors.Is(other, err) && other != err:
		w.h.violation("worker %d: the second release says %v, the first %v", g.who, other, err)
	case g.l.Err() == nil:
		w.h.violation("worker %d: held after its release", g.who)
	case err != nil && !errors.Is(err, zkrecipes.ErrLost):
		w.h.violation("worker %d: release: %v", g.who, err)
	}
	w.deletedByNobody(err)
	if err != nil || w.forced { // it may have ended before
		releasing = g.called
	}
	ret := w.h.now()
	if g.asked > 0 && !g.down && w.lines.stood(readersPlace(g.place)) {
		w.befell.add("downgrade left, and carried out")
		w.history.add(entry{lock: g.lock.path, who: g.who, op: downgraded, token: g.token, call: g.asked, ret: ret})
	}
	w.history.add(entry{lock: g.lock.path, who: g.who, op: ended, token: g.token, call: releasing, ret: ret})
}

// deletedByNobody: a lease does not end by a deletion that nobody makes. (Who is
// expired may hear of the deletion before the end of the session.)
func (w *lockWorld) deletedByNobody(err error) {
	if err != nil && !w.forced && strings.Contains(err.Error(), "deleted by somebody else") {
		w.h.violation("nobody deletes places here: %v", err)
	}
}
