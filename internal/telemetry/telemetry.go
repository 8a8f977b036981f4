// Package telemetry counts and measures what a Trace reports, for the modules that export
// metrics: zkotel and zkprom. It is not part of the library, which does not import it.
package telemetry

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Series is by what figures are told apart.
type Series struct {
	Recipe, Op string
	Path       string // what Config.Path makes of it, usually empty
}

// Config says what becomes of the figures. Its functions are called as those of a Trace are.
type Config struct {
	// Path returns what figures show of a path. nil: nothing.
	Path func(path string) string
	// Acquired is called with how long an acquisition took, and its error.
	Acquired func(ctx context.Context, s Series, wait time.Duration, err error)
	// Held is called with how long a hold lasted, and the error with which it ended.
	Held func(s Series, held time.Duration, err error)
}

// Meter has the figures of one Client. It is safe for concurrent use.
type Meter struct {
	cfg Config

	mu      sync.Mutex
	waits   open[*wait]
	holds   open[zkrecipes.Hold]
	session session
	polls   map[*poll]Queue // those whose last poll was answered
	dropped int
}

// wait is an acquisition under way. Its address identifies it.
type wait struct{ began time.Time }

// waitKey is the key, in a context, of the wait that a Meter's AcquireStart has begun.
type waitKey struct{ m *Meter }

// New returns a Meter to which nothing was reported.
func New(cfg Config) *Meter {
	return &Meter{cfg: cfg, waits: newOpen[*wait](), holds: newOpen[zkrecipes.Hold](), polls: map[*poll]Queue{}}
}

// Trace returns the functions that report to the Meter.
func (m *Meter) Trace() *zkrecipes.Trace {
	return &zkrecipes.Trace{
		AcquireStart: m.acquireStart,
		Queued: func(_ context.Context, e zkrecipes.TraceQueued) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.noteDropped(e.Dropped, e.Time)
		},
		AcquireEnd: m.acquireEnd,
		HoldStart:  m.holdStart,
		HoldEnd:    m.holdEnd,
		Session:    m.sessionChanged,
	}
}

func (m *Meter) series(recipe zkrecipes.Recipe, op, path string) Series {
	return Series{Recipe: string(recipe), Op: op, Path: m.cfg.Show(path)}
}

// Show returns what figures show of a path, as valid UTF-8, which exporters demand.
func (c *Config) Show(path string) string {
	if c.Path == nil {
		return ""
	}
	return strings.ToValidUTF8(c.Path(path), "\uFFFD")
}

func (m *Meter) acquireStart(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
	s, w := m.series(e.Recipe, e.Op, e.Path), &wait{time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits.begin(w, s, w.began)
	return context.WithValue(ctx, waitKey{m}, w)
}

func (m *Meter) acquireEnd(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
	s := m.series(e.Recipe, e.Op, e.Path)
	w, _ := ctx.Value(waitKey{m}).(*wait)
	m.mu.Lock()
	m.noteDropped(e.Dropped, e.Time)
	m.waits.end(w)
	m.mu.Unlock()
	m.cfg.Acquired(ctx, s, e.Wait, e.Err)
}

func (m *Meter) holdStart(_ context.Context, e zkrecipes.TraceHoldStart) {
	s := m.series(e.Recipe, e.Op, e.Path)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteDropped(e.Dropped, e.Time)
	m.holds.begin(e.Hold, s, e.Time)
}

func (m *Meter) holdEnd(e zkrecipes.TraceHoldEnd) {
	s := m.series(e.Recipe, e.Op, e.Path)
	m.mu.Lock()
	m.noteDropped(e.Dropped, e.Time)
	m.holds.end(e.Hold)
	m.mu.Unlock()
	m.cfg.Held(s, e.Held, e.Err)
}

func (m *Meter) sessionChanged(e zkrecipes.TraceSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteDropped(e.Dropped, e.Time)
	m.session.changed(e)
}

// noteDropped makes up for calls that were dropped before an event of that time. m.mu must be
// held. A wait that began before may have ended without a word, so it is not shown any more. A
// hold that has ended is noticed.
func (m *Meter) noteDropped(n int, before time.Time) {
	if n == 0 {
		return
	}
	m.dropped += n
	m.waits.forget(func(w *wait) bool { return !w.began.After(before) })
	m.holds.forget(func(h zkrecipes.Hold) bool { return !h.Ongoing() })
}

// Figures are those that have a value at any time, in contrast to those that Config's functions
// get as something ends.
type Figures struct {
	Waits, Holds []Open
	Session      Session
	Queues       []Queue
	Dropped      int // calls of the Trace
}

// Figures returns the figures of now.
func (m *Meter) Figures() Figures {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	return Figures{
		Waits: m.waits.figures(now), Holds: m.holds.figures(now),
		Session: m.session.figures(now), Queues: m.queueFigures(), Dropped: m.dropped,
	}
}

// AcquireBuckets returns the bounds of the histogram of acquisitions, in seconds.
func AcquireBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
}

// HoldBuckets returns the bounds of the histogram of holds, in seconds.
func HoldBuckets() []float64 {
	return []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200}
}
