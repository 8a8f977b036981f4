package line

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// background is the work of a Client that outlives its caller, by the path of its line. A later
// call on the same path may have to wait for it.
type background struct {
	mu        sync.Mutex
	abandoned map[string]map[chan struct{}]struct{}
}

func backgroundOf(c *session.Client) *background {
	return session.Attached(c, func() *background { return &background{abandoned: map[string]map[chan struct{}]struct{}{}} })
}

// Abandon notes that the caller no longer waits for the work that closes end, so that
// AwaitAbandoned waits for it. It returns false if end is closed already.
func (l *Line) Abandon(end chan struct{}) bool {
	b := backgroundOf(l.Client)
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-end:
		return false
	default:
	}
	if b.abandoned[l.Path] == nil {
		b.abandoned[l.Path] = map[chan struct{}]struct{}{}
	}
	b.abandoned[l.Path][end] = struct{}{}
	return true
}

// EndAbandoned closes end and forgets it.
func (l *Line) EndAbandoned(end chan struct{}) {
	b := backgroundOf(l.Client)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(end)
	delete(b.abandoned[l.Path], end)
	if len(b.abandoned[l.Path]) == 0 {
		delete(b.abandoned, l.Path)
	}
}

// Background runs f as work for which AwaitAbandoned waits. The returned channel is
// closed when f has returned.
func (l *Line) Background(f func()) <-chan struct{} {
	end := make(chan struct{})
	l.Abandon(end)
	l.Client.Tasks.Start(func() {
		defer l.EndAbandoned(end)
		f()
	})
	return end
}

// AwaitAbandoned waits until all abandoned work on the line's path has ended.
func (l *Line) AwaitAbandoned(ctx context.Context) error {
	b := backgroundOf(l.Client)
	b.mu.Lock()
	ends := slices.Collect(maps.Keys(b.abandoned[l.Path]))
	b.mu.Unlock()
	for _, end := range ends {
		if err := l.Client.AwaitEnd(ctx, end); err != nil {
			return err
		}
	}
	return nil
}
