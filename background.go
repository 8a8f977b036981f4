package zkrecipes

import (
	"context"
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What goes on after its caller has left: who comes again may have to wait for it.

// leave notes that nobody waits for end; false if it has come.
func (c *Client) leave(path string, end chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-end:
		return false
	default:
	}
	if c.left[path] == nil {
		c.left[path] = map[chan struct{}]struct{}{}
	}
	c.left[path][end] = struct{}{}
	return true
}

// settle closes end, and forgets it.
func (c *Client) settle(path string, end chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(end)
	delete(c.left[path], end)
	if len(c.left[path]) == 0 {
		delete(c.left, path)
	}
}

// background runs f, for which settled waits, and closes what it returns.
func (c *Client) background(path string, f func()) <-chan struct{} {
	end := make(chan struct{})
	c.leave(path, end)
	c.tasks.Start(func() {
		defer c.settle(path, end)
		f()
	})
	return end
}

// settled waits until all of it has ended.
func (c *Client) settled(ctx context.Context, path string) error {
	c.mu.Lock()
	ends := slices.Collect(maps.Keys(c.left[path]))
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
