package zkrecipes

import "sync"

// tasks counts goroutines that somebody waits for. Unlike a sync.WaitGroup it
// can be added to while it is waited for.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // of those who wait, closed when n is 0; nil: none do
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
	t.n++
}

func (t *tasks) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// done returns a channel that is closed once no task runs.
func (t *tasks) done() <-chan struct{} {
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
