package sim

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// checkLeft: those who entered by the same ready, or an earlier one, have gone.
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
	if stays != nil { // else it has not entered rightly
		w.log.violation("%s: worker %d has left, and %s is there", e.path, e.worker, stays.name)
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

// again has as many as there are to be enter and leave, when nothing befalls
// them.
func (w *doubleBarrierWorld) finalVisit(path string) {
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // servers may lag all the same
	defer cancel()
	var all sync.WaitGroup
	for i := range w.sizes[path] {
		p := w.processes[i%len(w.processes)]
		all.Go(func() {
			c, life := p.current()
			v, e, err := w.enter(ctx, p, life, 100+i, zkrecipes.NewDoubleBarrier(c, path, w.sizes[path]), path)
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

// judge: each who was let in is a member that was one of n.
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
		w.log.violation("%s: worker %d has entered (called at %d), and was never one of %d", path, calls[i].worker, calls[i].called, w.sizes[path])
	}
}

// with reports whether the call can have been that member: one that was, at one
// moment, one of as many as there are to be, or that was deleted by somebody and
// had not heard of it.
func (w *doubleBarrierWorld) matches(e *enterCall, m *visitor) bool {
	if e.client != m.client || e.called > m.joinedAt {
		return false
	}
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	return m.completeAt > 0 && m.completeAt < e.ret || m.deletedAt > 0 && m.deletedAt < e.ret && w.operatorDeleted[e.path+"/"+m.name]
}
