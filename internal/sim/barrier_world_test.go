package sim

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// barrierWorld is the workload of Barrier.
type barrierWorld struct {
	*membersWorld
	observer *roundObserver
}

var barrierEvents = []string{
	"canceled at a step", "member deleted", "round opened", "signal raised", "signal deleted", "surplus member", "path remade",
	"another size", "canceled, but in the round", "outcome read by a later session",
	"canceled", "canceled while disconnected", "uncertain", "evicted", "expired",
}

func newBarrierWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(n int) []string {
		return []string{
			"multi(check,create,setData)", "multi(check,create,setData" + strings.Repeat(",check", 1+n) + ")",
			"multi(check,delete,setData" + strings.Repeat(",check", 1+n) + ")",
			"multi(delete,check,setData)", "multi(delete,setData)", "multi(create,create,create,create,setData)",
			"multi(check,delete,delete,delete,delete)", "multi(check,delete,delete,delete)", "multi(check,delete,delete)",
			"getData", "getChildren2", "sync",
		}
	}, "/app/barriers/a", "/app/barriers/b")
	w := &barrierWorld{&membersWorld{waitWorld: g}, newRoundObserver(g)}
	w.operated(w.evictMembers("/round"), w.remakePaths(sizeData))
	return w.with(w)
}

func (w *barrierWorld) onChange(c zktest.Change) {
	for _, path := range w.paths {
		if n, err := strconv.Atoi(string(c.Data)); c.Path == path && !c.Deleted && err == nil {
			w.setSize(path, n)
		}
	}
	w.changedBelow(c, w.observer.onChange)
}

// work waits at barriers, a few times.
func (w *barrierWorld) work(p *process, j int) {
	barriers := makers[*zkrecipes.Barrier]{}
	for _, by := range w.turns(p, j, w.rounds, 2*time.Second) {
		path := w.paths[by.r.IntN(len(w.paths))]
		b := barriers.use(w.waitWorld, by, path, 3, zkrecipes.NewBarrier)
		if !w.tryOf(by, path, b.n, func(ctx context.Context) error { return w.callWait(ctx, by, b.it, b.n, path) }) {
			return
		}
	}
}

// callWait takes part in a round.
func (w *barrierWorld) callWait(ctx context.Context, by *worker, b *zkrecipes.Barrier, n int, path string) error {
	a := w.call(by, path, n, func() (int, error) { return b.Wait(ctx) })
	w.countOutcome(ctx, a)
	return a.err
}

func (w *barrierWorld) countOutcome(ctx context.Context, a *memberCall) {
	switch {
	case a.err == nil && ctx.Err() != nil:
		w.events.add("canceled, but in the round")
	case a.abandoned():
		w.events.add("canceled while disconnected")
	case errors.Is(a.err, zkrecipes.ErrSize):
		w.events.add("another size")
	case errors.Is(a.err, zkrecipes.ErrUncertain):
		w.events.add("uncertain")
	case errors.Is(a.err, zkrecipes.ErrEvicted):
		w.events.add("evicted")
	case errors.Is(a.err, zk.ErrSessionExpired):
		w.events.add("expired")
	case a.err != nil && ctx.Err() != nil:
		w.events.add("canceled")
	}
}

func (w *barrierWorld) checkAtRest() {
	for _, path := range w.paths {
		w.checkRest(path, "/round", func(ctx context.Context, by *worker, n int) error {
			return w.callWait(ctx, by, zkrecipes.NewBarrier(by.c, path, n), n, path)
		})
		w.checkCalls(path)
	}
}

// checkCalls compares the results of the calls with the server's changes. Each
// member with which a round was opened belongs to a call that returned its index, or
// that could not know it and returned ErrUncertain. Each index that was returned
// belongs to a member.
func (w *barrierWorld) checkCalls(path string) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	var named, owed []*member
	for _, m := range w.observer.members[path] {
		if m.namedAt > 0 {
			named = append(named, m)
		}
		// If the operator deletes a member before its client has learned that the join
		// was applied, the client joins again and waits for another round.
		if m.namedAt > 0 && !(m.deletedAt > 0 && w.hasDeleted(path+"/round/"+m.name)) {
			owed = append(owed, m)
		}
	}
	calls, told := w.callsAt(path)
	if i := match(len(owed), len(calls), func(i, j int) bool { return calls[j].matches(owed[i]) }); i >= 0 {
		m := owed[i]
		w.log.violation("%s: opened with %s of %s as %d, and no call returned that", path, m.name, m.client, m.index)
	}
	if i := match(len(told), len(named), func(i, j int) bool { return told[i].matches(named[j]) }); i >= 0 {
		a := told[i]
		w.log.violation("%s: Wait of worker %d returned %d (called at %d), and no round was opened with that", path, a.number, a.index, a.called)
	}
	for _, a := range told {
		for _, m := range named {
			if a.matches(m) && m.deletedAt > 0 && m.deletedAt < a.ret && a.matchesOnly(m, named) {
				w.events.add("outcome read by a later session")
			}
		}
	}
}

// abandoned reports whether Wait was canceled while disconnected, with the outcome
// unknown.
func (a *memberCall) abandoned() bool {
	return a.err != nil && strings.Contains(a.err.Error(), textMayOpen)
}

// matches reports whether the member may belong to the call.
func (a *memberCall) matches(m *member) bool {
	switch {
	case a.identity() != m.client || a.called > m.joinedAt:
		return false
	case a.err == nil:
		return a.index == m.index && a.of == m.of && m.namedAt < a.ret
	}
	return errors.Is(a.err, zkrecipes.ErrUncertain) // the join may have been applied
}

// matchesOnly reports whether no other member may belong to the call.
func (a *memberCall) matchesOnly(m *member, named []*member) bool {
	for _, other := range named {
		if other != m && a.matches(other) {
			return false
		}
	}
	return true
}
