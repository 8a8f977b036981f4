package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// record is what happened in a run, in order, and what must never happen.
type runLog struct {
	start time.Time

	mu         sync.Mutex
	clock      int64
	lines      []string
	violations []string
}

func newRunLog() *runLog { return &runLog{start: time.Now()} }

// now returns the next moment. Moments are counted, not timed: in simulated time
// many things happen at the same.
func (l *runLog) tick() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	return l.clock
}

func (l *runLog) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%10v  ", time.Since(l.start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// violation notes what must never happen.
func (l *runLog) violation(format string, args ...any) {
	l.note("VIOLATION "+format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// problem returns what was violated, nil if nothing was.
func (l *runLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.violations) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(l.violations, "; "))
}

func (l *runLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
