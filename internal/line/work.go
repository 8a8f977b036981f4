package line

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// AwaitWork waits until over is closed, or the Client is.
func (c *Client) AwaitWork(ctx context.Context, work *openWork, over <-chan struct{}, what string) error {
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

// StopGrants ends the calls that wait for a grant or for others. From then on nothing is
// granted. The channel is closed when nothing is held.
func (c *Client) StopGrants() (over <-chan struct{}) {
	over = c.Held.Stop() // a grant that comes now is counted, or refused
	c.stopWaiting(ErrClosed)
	return over
}

// openWork counts what is at work. Once it is stopped, nothing new begins, so that nothing
// is missed that begins at the same moment: it either is counted or is refused.
type openWork struct {
	mu   sync.Mutex
	n    int
	over chan struct{} // closed when nothing is at work any more; nil: not stopped
}

// Begin counts a piece of work, which ends with End. It returns false if it may not begin.
func (w *openWork) Begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return false
	}
	w.n++
	return true
}

// GoOn is like Begin for the rest of something that is at work: it may begin at any time.
func (w *openWork) GoOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *openWork) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.note()
}

// Stop lets nothing new begin. The channel is closed when nothing is at work.
func (w *openWork) Stop() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = make(chan struct{})
		w.note()
	}
	return w.over
}

// note closes over if nothing is at work. GoOn may have come after that. w.mu must be held.
func (w *openWork) note() {
	if w.n > 0 || w.over == nil {
		return
	}
	select {
	case <-w.over:
	default:
		close(w.over)
	}
}

func (w *openWork) IsStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over != nil
}

func (w *openWork) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}
