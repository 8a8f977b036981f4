package session

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/work"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// AwaitWork waits until over is closed, or the Client is.
func (c *Client) AwaitWork(ctx context.Context, work *work.Open, over <-chan struct{}, what string) error {
	select {
	case <-over: // even if ctx has ended
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

// Grace is for how long a call whose context has ended waits for the servers to confirm what it
// gives up, or to tell an outcome that only they know. Servers that are well answer within it.
const Grace = 100 * time.Millisecond

// Finish calls f, and returns its result. Once ctx has ended, it waits for so long and no longer:
// then f goes on in the background, and finished is false.
func (c *Client) Finish(ctx context.Context, grace time.Duration, f func() error) (finished bool, err error) {
	done := make(chan error, 1)
	c.Tasks.Start(func() { done <- f() })
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case err := <-done:
		return true, err
	case <-over.C:
		return false, nil
	}
}

// StopGrants ends the calls that wait for a grant or for others. From then on nothing is
// granted. The channel is closed when nothing is held.
func (c *Client) StopGrants() (over <-chan struct{}) {
	over = c.Held.Stop() // a grant that comes now is counted, or refused
	c.stopWaiting(errs.ErrClosed)
	return over
}
