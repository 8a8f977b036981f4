package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Call is a function that runs in the background, and what it returned.
type Call[R any] struct {
	t      testing.TB
	cancel context.CancelCauseFunc
	result R
	err    error
	done   chan struct{}
}

// Go calls f in the background. Its context ends with the test, or when Cancel
// is called.
func Go[R any](t testing.TB, f func(context.Context) (R, error)) *Call[R] {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	c := &Call[R]{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.result, c.err = f(ctx)
	}()
	return c
}

// GoErr is like Go for a function that returns only an error.
func GoErr(t testing.TB, f func(context.Context) error) *Call[struct{}] {
	return Go(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}

// Cancel ends the call's context with the given cause.
func (c *Call[R]) Cancel(cause error) { c.cancel(cause) }

// Done is closed when the call has returned.
func (c *Call[R]) Done() <-chan struct{} { return c.done }

// Wait waits until the call has returned, and returns its results. If that takes too
// long, the test fails.
func (c *Call[R]) Wait() (R, error) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		require.FailNow(c.t, "the call does not return")
	}
	return c.result, c.err
}

// Get is like Wait and fails the test if the call returned an error.
func (c *Call[R]) Get() R {
	c.t.Helper()
	result, err := c.Wait()
	require.NoError(c.t, err)
	return result
}

// Waiting reports whether the call has not returned yet.
func (c *Call[R]) Waiting() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}
