package zkconn

import (
	"context"
	"sync"
	"time"
)

// Tasks counts what is under way, for those who wait until nothing is. Unlike a sync.WaitGroup it
// allows Add while somebody waits. Once it is stopped, nothing new begins, so that nothing is missed
// that begins at the same moment: it either is counted or is refused.
type Tasks struct {
	mu      sync.Mutex
	n       int
	stopped bool
	idle    chan struct{} // closed when n is 0; nil: nobody waits
}

// Start runs f in a goroutine and counts it until f returns.
func (t *Tasks) Start(f func()) {
	t.Add()
	go func() {
		defer t.End()
		f()
	}()
}

// Grace is for how long a call whose context has ended waits for the servers to confirm what it
// gives up, or to tell an outcome that only they know. Servers that are well answer within it.
const Grace = 100 * time.Millisecond

// Within runs f as a task, and returns its result. Once ctx has ended, it waits for so long and no
// longer: then f goes on in the background, and finished is false.
func (t *Tasks) Within(ctx context.Context, grace time.Duration, f func() error) (finished bool, err error) {
	done := make(chan error, 1)
	t.Start(func() { done <- f() })
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case err := <-done:
		return true, err
	case <-over.C:
		return false, nil
	}
}

// Begin counts a task, which ends with End. It returns false if it may not begin.
func (t *Tasks) Begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.n++
	return true
}

// Add counts a task that goes on with work that is counted. Unlike Begin, it may be called after Stop.
func (t *Tasks) Add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// End ends a task that Begin or Add counted.
func (t *Tasks) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Stop lets nothing new begin. It returns what Done does.
func (t *Tasks) Stop() (idle <-chan struct{}) {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	return t.Done()
}

// IsStopped reports whether nothing new begins.
func (t *Tasks) IsStopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

// Count returns how many tasks are under way.
func (t *Tasks) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Done returns a channel that is closed once no task is under way.
func (t *Tasks) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	if t.n == 0 {
		close(idle)
	} else {
		t.idle = idle
	}
	return idle
}
