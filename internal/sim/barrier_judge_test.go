package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

func (w *barrierWorld) checkAtRest() {
	for _, path := range w.paths {
		round := w.srv.Children(path + "/round")
		if len(round) > 1 || len(round) == 1 && round[0] != "ready" {
			w.log.violation("%s: left behind: %v\n%s", path, round, w.srv.Tree())
		}
		w.finalRound(path)
		w.checkEmpty(path)
		w.checkCalls(path)
	}
}

// finalRound holds one more round, without faults.
func (w *barrierWorld) finalRound(path string) {
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // the server may still lag
	defer cancel()
	var all sync.WaitGroup
	n := w.size(path)
	for i := range n {
		p := w.processes[i%len(w.processes)]
		all.Go(func() {
			c, life := p.current()
			if a := w.callWait(ctx, p, life, 100+i, &sizedBarrier{zkrecipes.NewBarrier(c, path, n), n}, path); a.err != nil {
				w.log.violation("at rest: %v\n%s", a.err, w.srv.Tree())
			}
		})
	}
	all.Wait()
	time.Sleep(w.timeout)
}

// checkCalls compares the results of the calls with the server's changes. Each
// member with which a round was opened belongs to a call that returned its index, or
// that could not know it and returned ErrUncertain. Each index that was returned
// belongs to a member.
func (w *barrierWorld) checkCalls(path string) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	var named, owed []*member
	w.waitWorld.mu.Lock()
	for _, m := range w.observer.members[path] {
		if m.namedAt > 0 {
			named = append(named, m)
		}
		// If the operator deletes a member before its client has learned that the join
		// was applied, the client joins again and waits for another round.
		if m.namedAt > 0 && !(m.deletedAt > 0 && w.operatorDeleted[path+"/round/"+m.name]) {
			owed = append(owed, m)
		}
	}
	w.waitWorld.mu.Unlock()
	var calls, told []*waitCall
	for _, a := range w.calls {
		if a.path != path {
			continue
		}
		calls = append(calls, a)
		if a.err == nil {
			told = append(told, a)
		}
	}
	if i := match(len(owed), len(calls), func(i, j int) bool { return calls[j].matches(owed[i]) }); i >= 0 {
		m := owed[i]
		w.log.violation("%s: opened with %s of %s as %d, and no call returned that", path, m.name, m.client, m.index)
	}
	if i := match(len(told), len(named), func(i, j int) bool { return told[i].matches(named[j]) }); i >= 0 {
		a := told[i]
		w.log.violation("%s: Wait of worker %d returned %d (called at %d), and no round was opened with that", path, a.worker, a.index, a.called)
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
func (a *waitCall) abandoned() bool {
	return a.err != nil && strings.Contains(a.err.Error(), textMayOpen)
}

// matches reports whether the member may belong to the call.
func (a *waitCall) matches(m *member) bool {
	switch {
	case a.client != m.client || a.called > m.joinedAt:
		return false
	case a.err == nil:
		return a.index == m.index && a.n == m.of && m.namedAt < a.ret
	}
	return errors.Is(a.err, zkrecipes.ErrUncertain) // the join may have been applied
}

// matchesOnly reports whether no other member may belong to the call.
func (a *waitCall) matchesOnly(m *member, named []*member) bool {
	for _, other := range named {
		if other != m && a.matches(other) {
			return false
		}
	}
	return true
}

// match assigns to each of n a different one of m, such that may allows each pair.
// It returns one of the n that cannot be assigned, or -1 if all can. (Kuhn's
// algorithm for bipartite matching.)
func match(n, m int, may func(i, j int) bool) int {
	owner := make([]int, m)
	for j := range owner {
		owner[j] = -1
	}
	for i := range n {
		seen := make([]bool, m)
		var try func(i int) bool
		try = func(i int) bool {
			for j := range m {
				if seen[j] || !may(i, j) {
					continue
				}
				seen[j] = true
				if owner[j] < 0 || try(owner[j]) {
					owner[j] = i
					return true
				}
			}
			return false
		}
		if !try(i) {
			return i
		}
	}
	return -1
}
