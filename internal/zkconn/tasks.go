package zkconn

import (
	"context"
	"sync"
	"time"
)

// Tasks counts goroutines that somebody waits for. Unlike a sync.WaitGroup it
// allows Add while somebody waits.
type Tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil: nobody waits
}

// Start runs f in a goroutine and counts it until f returns.
func (t *Tasks) Start(f func()) {
	t.Add()
	go func() {
		defer t.Finish()
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

// Add counts a task that ends with Finish.
func (t *Tasks) Add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// Finish ends a task that Add counted.
func (t *Tasks) Finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Done returns a channel that is closed once no task runs.
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
