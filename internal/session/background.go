package session

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// background is the work of a Client that outlives its caller, by its path. A later call on the
// same path may have to wait for it.
type background struct {
	mu        sync.Mutex
	abandoned map[string]map[chan struct{}]struct{}
}

// Abandon notes that the caller no longer waits for the work that closes end, so that
// AwaitAbandoned waits for it. It returns false if end is closed already.
func (a At) Abandon(end chan struct{}) bool {
	b := &a.Client.background
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-end:
		return false
	default:
	}
	if b.abandoned[a.Path] == nil {
		b.abandoned[a.Path] = map[chan struct{}]struct{}{}
	}
	b.abandoned[a.Path][end] = struct{}{}
	return true
}

// EndAbandoned closes end and forgets it.
func (a At) EndAbandoned(end chan struct{}) {
	b := &a.Client.background
	b.mu.Lock()
	defer b.mu.Unlock()
	close(end)
	delete(b.abandoned[a.Path], end)
	if len(b.abandoned[a.Path]) == 0 {
		delete(b.abandoned, a.Path)
	}
}

// Background runs f as work for which AwaitAbandoned waits. The returned channel is
// closed when f has returned.
func (a At) Background(f func()) <-chan struct{} {
	end := make(chan struct{})
	a.Abandon(end)
	a.Client.Tasks.Start(func() {
		defer a.EndAbandoned(end)
		f()
	})
	return end
}

// AwaitAbandoned waits until all abandoned work on the path has ended.
func (a At) AwaitAbandoned(ctx context.Context) error {
	b := &a.Client.background
	b.mu.Lock()
	ends := slices.Collect(maps.Keys(b.abandoned[a.Path]))
	b.mu.Unlock()
	for _, end := range ends {
		if err := a.Client.AwaitEnd(ctx, end); err != nil {
			return err
		}
	}
	return nil
}
