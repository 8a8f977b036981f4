package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
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

// eventCounts counts the faults and situations that occurred, by name.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// newEventCounts returns counts in which these events stand at 0.
func newEventCounts(events ...string) *eventCounts {
	c := &eventCounts{counts: map[string]int{}}
	for _, event := range events {
		c.counts[event] = 0
	}
	return c
}

func (c *eventCounts) add(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[event]++
}

func (c *eventCounts) addAll(counts map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for event, n := range counts {
		if n == 0 && strings.HasPrefix(event, string(zktest.Miscount)) {
			continue // it needs a znode that is deleted when a child has just ended with its session
		}
		c.counts[event] += n
	}
}

func (c *eventCounts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, event := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", event, c.counts[event]))
	}
	return strings.Join(parts, ", ")
}

// logTrace returns a Trace that logs everything, and checks that what it reports comes in
// pairs.
func (w *world) logTrace(i int) *zkrecipes.Trace {
	pairs := harness.NewPairs(func(format string, args ...any) {
		w.log.violation("trace: "+format, args...)
	})
	w.pairsMu.Lock()
	w.pairs = append(w.pairs, pairs)
	w.pairsMu.Unlock()
	missing := func(dropped int) {
		if dropped > 0 {
			w.log.violation("trace: %d calls were dropped", dropped)
		}
	}
	return &zkrecipes.Trace{
		AcquireStart: func(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
			return pairs.Start(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op})
		},
		Queued: func(ctx context.Context, e zkrecipes.TraceQueued) {
			w.log.note("trace %d: %s: queued 0x%x %s %s ahead %d", i, e.Op, e.Session, e.Path, e.Place, e.Ahead)
			missing(e.Dropped)
			pairs.Queued(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op})
		},
		AcquireEnd: func(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
			w.log.note("trace %d: %s: end after %v 0x%x %s %s 0x%x %v", i, e.Op, e.Wait, e.Session, e.Path, e.Place, int64(e.Token), e.Err)
			missing(e.Dropped)
			pairs.End(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Err: e.Err})
		},
		HoldStart: func(ctx context.Context, e zkrecipes.TraceHoldStart) {
			missing(e.Dropped)
			pairs.HoldStart(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Hold: e.Hold})
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			w.log.note("trace %d: %s: held %v 0x%x %s %s 0x%x %v", i, e.Op, e.Held, e.Session, e.Path, e.Place, int64(e.Token), e.Err)
			missing(e.Dropped)
			if w.holdEnded != nil {
				w.holdEnded(e.Err)
			}
			pairs.HoldEnd(harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Hold: e.Hold, Err: e.Err})
		},
		Session: func(e zkrecipes.TraceSession) {
			w.log.note("trace %d: %v 0x%x %s %v", i, e.State, e.ID, e.Server, e.Err)
			missing(e.Dropped)
		},
	}
}
