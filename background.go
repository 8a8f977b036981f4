package zkrecipes

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Work that outlives its caller. A later call on the same path may have to wait for
// it.

// abandon notes that the caller no longer waits for the work that closes end, so that
// awaitAbandoned waits for it. It returns false if end is closed already.
func (c *client) abandon(path string, end chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-end:
		return false
	default:
	}
	if c.abandoned[path] == nil {
		c.abandoned[path] = map[chan struct{}]struct{}{}
	}
	c.abandoned[path][end] = struct{}{}
	return true
}

// endAbandoned closes end and forgets it.
func (c *client) endAbandoned(path string, end chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(end)
	delete(c.abandoned[path], end)
	if len(c.abandoned[path]) == 0 {
		delete(c.abandoned, path)
	}
}

// background runs f as work for which awaitAbandoned waits. The returned channel is
// closed when f has returned.
func (c *client) background(path string, f func()) <-chan struct{} {
	end := make(chan struct{})
	c.abandon(path, end)
	c.tasks.Start(func() {
		defer c.endAbandoned(path, end)
		f()
	})
	return end
}

// awaitAbandoned waits until all abandoned work on that path has ended. It returns an
// error if the servers refuse to say whether a lost join has left a place there.
func (c *client) awaitAbandoned(ctx context.Context, path string) error {
	c.mu.Lock()
	ends := slices.Collect(maps.Keys(c.abandoned[path]))
	lost := c.lostJoinsOn(path)
	c.mu.Unlock()
	for _, end := range ends {
		if err := c.awaitEnd(ctx, end); err != nil {
			return err
		}
	}
	c.mu.Lock()
	maps.Copy(lost, c.lostJoinsOn(path)) // the work may have ended as one
	c.mu.Unlock()
	for j := range lost {
		gone, err := j.settle(ctx)
		switch {
		case isContextErr(ctx, err):
			return err
		case err != nil:
			return fmt.Errorf("a place of an earlier call may be left: %w", err)
		}
		if err := c.awaitEnd(ctx, gone); err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd waits until end is closed. It may be nil.
func (c *client) awaitEnd(ctx context.Context, end <-chan struct{}) error {
	if end == nil {
		return nil
	}
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return c.contextErr(ctx)
	}
}

func (c *client) addLostJoin(j *lostJoin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lostJoins[j] = struct{}{}
}

func (c *client) endLostJoin(j *lostJoin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lostJoins, j)
}

// lostJoinsOn returns the lost joins that are searched for and concern calls on that
// path. c.mu must be held.
func (c *client) lostJoinsOn(path string) map[*lostJoin]struct{} {
	on := map[*lostJoin]struct{}{}
	for j := range c.lostJoins {
		if j.user() == path {
			on[j] = struct{}{}
		}
	}
	return on
}
