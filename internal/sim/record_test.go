package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// record is what happened in a run, in order, and what must never happen.
type record struct {
	began time.Time

	mu     sync.Mutex
	moment int64
	lines  []string
	broken []string
}

func newRecord() *record { return &record{began: time.Now()} }

// now returns the next moment. Moments are counted, not timed: in simulated time
// many things happen at the same.
func (h *record) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moment++
	return h.moment
}

func (h *record) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%10v  ", time.Since(h.began).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// violation notes what must never happen.
func (h *record) violation(format string, args ...any) {
	h.note("VIOLATION "+format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

// problem returns what was violated, nil if nothing was.
func (h *record) problem() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(h.broken, "; "))
}

func (h *record) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}
