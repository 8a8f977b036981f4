package line

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// background is the work of a Client that outlives its caller. A later call on the same path
// may have to wait for it.
type background struct {
	mu        sync.Mutex
	abandoned map[string]map[chan struct{}]struct{}
	lostJoins map[*lostJoin]struct{}
}

func backgroundOf(c *session.Client) *background {
	return session.Attached(c, func() *background {
		return &background{abandoned: map[string]map[chan struct{}]struct{}{}, lostJoins: map[*lostJoin]struct{}{}}
	})
}

// Abandon notes that the caller no longer waits for the work that closes end, so that
// AwaitAbandoned waits for it. It returns false if end is closed already.
func (l *Line) Abandon(end chan struct{}) bool { return backgroundOf(l.Client).abandon(l.Path, end) }

// EndAbandoned closes end and forgets it.
func (l *Line) EndAbandoned(end chan struct{}) { backgroundOf(l.Client).end(l.Path, end) }

// Background runs f as work for which AwaitAbandoned waits. The returned channel is
// closed when f has returned.
func (l *Line) Background(f func()) <-chan struct{} { return backgroundFor(l.Client, l.Path, f) }

func (b *background) abandon(path string, end chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-end:
		return false
	default:
	}
	if b.abandoned[path] == nil {
		b.abandoned[path] = map[chan struct{}]struct{}{}
	}
	b.abandoned[path][end] = struct{}{}
	return true
}

func (b *background) end(path string, end chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(end)
	delete(b.abandoned[path], end)
	if len(b.abandoned[path]) == 0 {
		delete(b.abandoned, path)
	}
}

// backgroundFor is like Line.Background for calls on that path.
func backgroundFor(c *session.Client, path string, f func()) <-chan struct{} {
	b, end := backgroundOf(c), make(chan struct{})
	b.abandon(path, end)
	c.Tasks.Start(func() {
		defer b.end(path, end)
		f()
	})
	return end
}

// AwaitAbandoned waits until all abandoned work on the line's path has ended. It returns an
// error if the servers refuse to say whether a lost join has left a place there.
func (l *Line) AwaitAbandoned(ctx context.Context) error {
	c, b := l.Client, backgroundOf(l.Client)
	b.mu.Lock()
	ends := slices.Collect(maps.Keys(b.abandoned[l.Path]))
	lost := b.lostJoinsOn(l.Path)
	b.mu.Unlock()
	for _, end := range ends {
		if err := c.AwaitEnd(ctx, end); err != nil {
			return err
		}
	}
	b.mu.Lock()
	maps.Copy(lost, b.lostJoinsOn(l.Path)) // the work may have ended as one
	b.mu.Unlock()
	for j := range lost {
		gone, err := j.deleteIfFound(ctx)
		switch {
		case errs.IsContextErr(ctx, err):
			return err
		case err != nil:
			return fmt.Errorf("a place of an earlier call may be left: %w", err)
		}
		if err := c.AwaitEnd(ctx, gone); err != nil {
			return err
		}
	}
	return nil
}

func (b *background) addLostJoin(j *lostJoin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lostJoins[j] = struct{}{}
}

func (b *background) endLostJoin(j *lostJoin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lostJoins, j)
}

// lostJoinsOn returns the lost joins that are searched for and concern calls on that
// path. b.mu must be held.
func (b *background) lostJoinsOn(path string) map[*lostJoin]struct{} {
	on := map[*lostJoin]struct{}{}
	for j := range b.lostJoins {
		if j.user() == path {
			on[j] = struct{}{}
		}
	}
	return on
}
