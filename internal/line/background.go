package line

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/errs"
)

// Work that outlives its caller. A later call on the same path may have to wait for
// it.

// Abandon notes that the caller no longer waits for the work that closes end, so that
// AwaitAbandoned waits for it. It returns false if end is closed already.
func (c *Client) Abandon(path string, end chan struct{}) bool {
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

// EndAbandoned closes end and forgets it.
func (c *Client) EndAbandoned(path string, end chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(end)
	delete(c.abandoned[path], end)
	if len(c.abandoned[path]) == 0 {
		delete(c.abandoned, path)
	}
}

// Background runs f as work for which AwaitAbandoned waits. The returned channel is
// closed when f has returned.
func (c *Client) Background(path string, f func()) <-chan struct{} {
	end := make(chan struct{})
	c.Abandon(path, end)
	c.Tasks.Start(func() {
		defer c.EndAbandoned(path, end)
		f()
	})
	return end
}

// AwaitAbandoned waits until all abandoned work on that path has ended. It returns an
// error if the servers refuse to say whether a lost join has left a place there.
func (c *Client) AwaitAbandoned(ctx context.Context, path string) error {
	c.mu.Lock()
	ends := slices.Collect(maps.Keys(c.abandoned[path]))
	lost := c.lostJoinsOn(path)
	c.mu.Unlock()
	for _, end := range ends {
		if err := c.AwaitEnd(ctx, end); err != nil {
			return err
		}
	}
	c.mu.Lock()
	maps.Copy(lost, c.lostJoinsOn(path)) // the work may have ended as one
	c.mu.Unlock()
	for j := range lost {
		gone, err := j.settle(ctx)
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

// AwaitEnd waits until end is closed. It may be nil.
func (c *Client) AwaitEnd(ctx context.Context, end <-chan struct{}) error {
	if end == nil {
		return nil
	}
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return c.ContextErr(ctx)
	}
}

func (c *Client) addLostJoin(j *LostJoin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lostJoins[j] = struct{}{}
}

func (c *Client) endLostJoin(j *LostJoin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lostJoins, j)
}

// lostJoinsOn returns the lost joins that are searched for and concern calls on that
// path. c.mu must be held.
func (c *Client) lostJoinsOn(path string) map[*LostJoin]struct{} {
	on := map[*LostJoin]struct{}{}
	for j := range c.lostJoins {
		if j.user() == path {
			on[j] = struct{}{}
		}
	}
	return on
}
