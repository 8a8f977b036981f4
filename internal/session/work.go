package session

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// AwaitWork waits until over is closed, or the Client is.
func (c *Client) AwaitWork(ctx context.Context, work *zkconn.Tasks, over <-chan struct{}, what string) error {
	select {
	case <-over: // even if ctx has ended
		return nil
	case <-c.Closing.Done():
		return nil
	default:
	}
	select {
	case <-over:
	case <-c.Closing.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w (not over: %d %s)", zkconn.ContextErr(ctx), work.Count(), what)
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

// StopGrants ends the calls that wait for a grant or for others. From then on nothing is
// granted. The channel is closed when nothing is held.
func (c *Client) StopGrants() (over <-chan struct{}) {
	over = c.Held.Stop() // a grant that comes now is counted, or refused
	c.stopWaiting(errs.ErrClosed)
	return over
}
