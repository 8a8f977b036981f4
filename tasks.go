package zkrecipes

import "sync"

// tasks counts goroutines that somebody waits for. Unlike a sync.WaitGroup it
// can be added to while it is waited for.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed while n is 0; nil before the first task
}

func (t *tasks) start(f func()) {
	t.add()
	go func() {
		defer t.finish()
		f()
	}()
}

func (t *tasks) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		t.idle = make(chan struct{})
	}
	t.n++
}

func (t *tasks) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 {
		close(t.idle)
	}
}

// done returns a channel that is closed when no task runs.
func (t *tasks) done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
		close(t.idle)
	}
	return t.idle
}
