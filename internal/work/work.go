// Package work counts what is under way, and runs several things at a time.
package work

import "sync"

// Open counts what is at work. Once it is stopped, nothing new begins, so that nothing
// is missed that begins at the same moment: it either is counted or is refused.
type Open struct {
	mu   sync.Mutex
	n    int
	over chan struct{} // closed when nothing is at work any more; nil: not stopped
}

// Begin counts a piece of work, which ends with End. It returns false if it may not begin.
func (w *Open) Begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return false
	}
	w.n++
	return true
}

// AddLate is like Begin for the rest of something that is at work: it may begin at any time.
func (w *Open) AddLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *Open) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.note()
}

// Stop lets nothing new begin. The channel is closed when nothing is at work.
func (w *Open) Stop() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = make(chan struct{})
		w.note()
	}
	return w.over
}

// note closes over if nothing is at work. AddLate may have come after that. w.mu must be held.
func (w *Open) note() {
	if w.n > 0 || w.over == nil {
		return
	}
	select {
	case <-w.over:
	default:
		close(w.over)
	}
}

func (w *Open) IsStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over != nil
}

func (w *Open) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// AtATime calls f with 0 to n-1, several at a time, and returns when all have returned.
func AtATime(n int, f func(i int)) {
	var wg sync.WaitGroup
	running := make(chan struct{}, 16)
	for i := range n {
		running <- struct{}{}
		wg.Go(func() {
			defer func() { <-running }()
			f(i)
		})
	}
	wg.Wait()
}
