package sim

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// checkLeave checks, after a Leave that returned nil, that all members that entered by the
// same ready or an earlier one have gone.
func (w *doubleBarrierWorld) checkLeave(e *enterCall) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	var stays *visitor
	for _, m := range w.observer.visitors[e.path] {
		if !w.matches(e, m) {
			continue
		}
		if stays = w.observer.blockedBy(e.path, m); stays == nil {
			return
		}
	}
	if stays != nil { // else checkCalls finds that the call matches no member
		w.log.violation("%s: worker %d has left, and %s is still there", e.path, e.worker, stays.name)
	}
}

func (w *doubleBarrierWorld) checkAtRest() {
	for _, path := range w.paths {
		left := w.srv.Children(path)
		if len(left) > 1 || len(left) == 1 && left[0] != "ready" {
			w.log.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
		}
		w.finalVisit(path)
		w.checkEmpty(path)
		w.checkCalls(path)
	}
}

// finalVisit lets as many as the barrier waits for enter and leave, without faults.
func (w *doubleBarrierWorld) finalVisit(path string) {
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // the server may still lag
	defer cancel()
	var all sync.WaitGroup
	n := w.size(path)
	for i := range n {
		p := w.processes[i%len(w.processes)]
		all.Go(func() {
			c, life := p.current()
			v, e, err := w.enter(ctx, p, life, 100+i, &sizedDouble{zkrecipes.NewDoubleBarrier(c, path, n), n}, path)
			if err == nil {
				if err = v.Leave(ctx); err == nil {
					w.checkLeave(e)
				}
			}
			if err != nil {
				w.log.violation("at rest: %v\n%s", err, w.srv.Tree())
			}
		})
	}
	all.Wait()
	time.Sleep(w.timeout)
}

// checkCalls checks that each Enter that returned nil belongs to a member of its own
// that was one of n.
func (w *doubleBarrierWorld) checkCalls(path string) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	var calls []*enterCall
	for _, e := range w.calls {
		if e.path == path {
			calls = append(calls, e)
		}
	}
	came := w.observer.visitors[path]
	if i := match(len(calls), len(came), func(i, j int) bool { return w.matches(calls[i], came[j]) }); i >= 0 {
		w.log.violation("%s: worker %d has entered (called at %d), and was never one of %d", path, calls[i].worker, calls[i].called, calls[i].n)
	}
}

// matches reports whether the member may belong to the call. The member must at
// some moment have been one of n that wait for n, or the operator
// must have deleted it before its client learned that.
func (w *doubleBarrierWorld) matches(e *enterCall, m *visitor) bool {
	if e.client != m.client || e.n != m.n || e.called > m.joinedAt {
		return false
	}
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	return m.completeAt > 0 && m.completeAt < e.ret || m.deletedAt > 0 && m.deletedAt < e.ret && w.operatorDeleted[e.path+"/"+m.name]
}
