package zkrecipes

import (
	"context"
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Work that outlives its caller. A later call on the same path may have to wait for
// it.

// abandon notes that the caller no longer waits for the work that closes end, so that
// awaitAbandoned waits for it. It returns false if end is closed already.
func (c *Client) abandon(path string, end chan struct{}) bool {
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
func (c *Client) endAbandoned(path string, end chan struct{}) {
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
func (c *Client) background(path string, f func()) <-chan struct{} {
	end := make(chan struct{})
	c.abandon(path, end)
	c.tasks.Start(func() {
		defer c.endAbandoned(path, end)
		f()
	})
	return end
}

// awaitAbandoned waits until all abandoned work on that path has ended.
func (c *Client) awaitAbandoned(ctx context.Context, path string) error {
	c.mu.Lock()
	ends := slices.Collect(maps.Keys(c.abandoned[path]))
	c.mu.Unlock()
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return zkconn.ContextErr(ctx)
		}
	}
	return nil
}
