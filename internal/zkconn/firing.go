package zkconn

import (
	"slices"
	"sync"
)

// firing is what fires once, and tells those who wait.
type firing struct {
	fired chan struct{}

	mu     sync.Mutex // while it is held, no other lock is taken
	notify []chan<- struct{}
}

func newFiring() firing { return firing{fired: make(chan struct{})} }

// HasFired reports whether the watch has fired.
func (f *firing) HasFired() bool { return isClosed(f.fired) }

// Notify sends to c, without blocking, when the watch fires, or now if it has fired. c
// has room for one: so one channel can stand for many watches.
func (f *firing) Notify(c chan<- struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.HasFired() {
		wake(c)
		return
	}
	f.notify = append(f.notify, c)
}

// StopNotify ends one Notify of c.
func (f *firing) StopNotify(c chan<- struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.notify, c); i >= 0 {
		f.notify = slices.Delete(f.notify, i, i+1)
	}
}

// fire calls before, which sets what those who wait look at, and then tells them.
func (f *firing) fire(before func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before()
	close(f.fired)
	for _, c := range f.notify {
		wake(c)
	}
	f.notify = nil
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
