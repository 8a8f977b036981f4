package zkrecipes

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// awaitWork waits until over is closed, or the Client is.
func (c *client) awaitWork(ctx context.Context, work *openWork, over <-chan struct{}, what string) error {
	select {
	case <-over: // even if ctx has ended
		return nil
	default:
	}
	select {
	case <-over:
	case <-c.closing.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w (not over: %d %s)", zkconn.ContextErr(ctx), work.count(), what)
	}
	return nil
}

// stopGrants ends the calls that wait for a grant or for others. From then on nothing is
// granted. The channel is closed when nothing is held.
func (c *client) stopGrants() (over <-chan struct{}) {
	over = c.held.stop() // a grant that comes now is counted, or refused
	c.stopWaiting(coreErrClosed)
	return over
}

// openWork counts what is at work. Once it is stopped, nothing new begins, so that nothing
// is missed that begins at the same moment: it either is counted or is refused.
type openWork struct {
	mu   sync.Mutex
	n    int
	over chan struct{} // closed when nothing is at work any more; nil: not stopped
}

// begin counts a piece of work, which ends with end. It returns false if it may not begin.
func (w *openWork) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return false
	}
	w.n++
	return true
}

// goOn is like begin for the rest of something that is at work: it may begin at any time.
func (w *openWork) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *openWork) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.note()
}

// stop lets nothing new begin. The channel is closed when nothing is at work.
func (w *openWork) stop() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = make(chan struct{})
		w.note()
	}
	return w.over
}

// note closes over if nothing is at work. goOn may have come after that. w.mu must be held.
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

func (w *openWork) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over != nil
}

func (w *openWork) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}
