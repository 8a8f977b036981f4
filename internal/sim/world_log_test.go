package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// runLog is the log of one run, with its violations. It also hands out the logical
// time by which calls and changes are ordered.
type runLog struct {
	start time.Time

	mu         sync.Mutex
	clock      int64 // the latest tick
	lines      []string
	violations []string
}

func newRunLog() *runLog { return &runLog{start: time.Now()} }

// tick returns the next logical time. Time is counted, because in simulated time
// many things happen at the same instant.
func (l *runLog) tick() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	return l.clock
}

// note adds a line.
func (l *runLog) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%10v  ", time.Since(l.start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// violation adds a line about something that must never happen, and fails the run.
func (l *runLog) violation(format string, args ...any) {
	l.note("VIOLATION "+format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// err returns the violations, or nil if there are none.
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
