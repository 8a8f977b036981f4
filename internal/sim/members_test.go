package sim

import (
	"context"
	"sync"
	"time"
)

// membersWorld is what the worlds of Barrier and DoubleBarrier have in common.
type membersWorld struct {
	*waitWorld

	mu    sync.Mutex
	calls []*memberCall
}

// memberCall is a call of Wait or Enter, as its caller saw it.
type memberCall struct {
	*worker
	path        string
	of          int // the members that it waited for
	called, ret int64
	index       int // that Wait returned
	err         error
}

// call makes a call for so many members, and notes it.
func (w *membersWorld) call(by *worker, path string, of int, f func() (index int, err error)) *memberCall {
	a := &memberCall{worker: by, path: path, of: of, called: w.log.tick()}
	a.index, a.err = f()
	a.ret = w.log.tick()
	w.log.note("worker %d of %s: called at %d at %s: %d %v", a.number, a.identity(), a.called, path, a.index, a.err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, a)
	return a
}

// callsAt returns the calls at a path, and those of them that succeeded.
func (w *membersWorld) callsAt(path string) (all, succeeded []*memberCall) {
	for _, a := range w.calls {
		if a.path != path {
			continue
		}
		all = append(all, a)
		if a.err == nil {
			succeeded = append(succeeded, a)
		}
	}
	return all, succeeded
}

// unblock cancels all pending calls if they would wait forever: every worker that
// is not done is waiting, and no path has as many waiting as it needs.
func (w *membersWorld) unblock() {
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	type group struct {
		path string
		n    int
	}
	at := map[group]int{}
	for s := range w.pending {
		at[group{s.path, s.n}]++
	}
	if len(w.pending) < int(w.working.Load()) {
		return
	}
	for g, there := range at {
		if there >= g.n {
			return
		}
	}
	w.cancelAll()
}

// checkRest checks that nothing is left of the members below a path but ready, and that then as many as
// the barrier waits for can make one more call, without faults.
func (w *membersWorld) checkRest(path, below string, call func(ctx context.Context, by *worker, n int) error) {
	if left := w.srv.Children(path + below); len(left) > 1 || len(left) == 1 && left[0] != "ready" {
		w.log.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // the server may still lag
	defer cancel()
	var all sync.WaitGroup
	n := w.size(path)
	for i := range n {
		all.Go(func() {
			by := &worker{life: w.processes[i%len(w.processes)].current(), number: 100 + i}
			if err := call(ctx, by, n); err != nil {
				w.log.violation("at rest: %v\n%s", err, w.srv.Tree())
			}
		})
	}
	all.Wait()
	time.Sleep(w.timeout)
	w.checkEmpty(path)
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
