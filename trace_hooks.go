package zkrecipes

import (
	"context"
	"log/slog"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// maxHookCalls bounds the calls that wait for a slow function.
const maxHookCalls = 10_000

// hooks calls Trace functions and the Logger in order, outside of all locks. Its
// goroutine lives as long as there is something to call.
type hooks struct {
	trace    Trace
	acquires bool         // a function of the trace follows acquisitions
	logger   *slog.Logger // may be nil

	mu      sync.Mutex
	queue   []hookCall
	running bool

	dropped int // events that were dropped since the last one was delivered; only run uses it
}

// hookCall is a call of a Trace function or of the Logger, or the place of calls that
// were dropped.
type hookCall struct {
	tell func(dropped int) // how many were dropped since the last one
	log  func()

	events, records int // that were dropped
}

// hooksOf returns those of a client.
func hooksOf(c *session.Client) *hooks {
	return session.Attached(c, func() *hooks { return new(hooks) })
}

// setTrace sets the functions. It comes before all else.
func (h *hooks) setTrace(t Trace) {
	h.trace = t
	h.acquires = t.AcquireStart != nil || t.Queued != nil || t.AcquireEnd != nil || t.HoldStart != nil || t.HoldEnd != nil
}

// tell calls a Trace function, by way of f.
func (h *hooks) tell(f func(dropped int)) { h.later(hookCall{tell: f}) }

// log writes a record to the Logger, whose handler is the user's.
func (h *hooks) log(level slog.Level, msg string, args ...any) {
	if h.logger != nil {
		h.later(hookCall{log: func() { h.logger.Log(context.Background(), level, msg, args...) }})
	}
}

func (h *hooks) later(c hookCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= maxHookCalls {
		h.drop(c)
		return
	}
	h.queue = append(h.queue, c)
	if !h.running {
		h.running = true
		go h.run()
	}
}

// drop counts a call at the end of the queue, where it would have been.
func (h *hooks) drop(c hookCall) {
	last := &h.queue[len(h.queue)-1]
	if last.events+last.records == 0 {
		h.queue = append(h.queue, hookCall{})
		last = &h.queue[len(h.queue)-1]
	}
	if c.tell != nil {
		last.events++
	} else {
		last.records++
	}
}

func (h *hooks) run() {
	returned := false
	defer func() {
		if !returned { // a function has ended the goroutine (runtime.Goexit)
			go h.run()
		}
	}()
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.queue, h.running = nil, false
			h.mu.Unlock()
			returned = true
			return
		}
		c := h.queue[0]
		h.queue[0] = hookCall{}
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.call(c)
	}
}

func (h *hooks) call(c hookCall) {
	defer func() {
		if p := recover(); p != nil {
			defer func() { _ = recover() }() // it may be the Logger that panics
			if h.logger == nil {
				return
			}
			h.logger.Error(tracePanicked, "panic", p)
		}
	}()
	switch {
	case c.tell != nil:
		dropped := h.dropped
		h.dropped = 0
		c.tell(dropped)
	case c.log != nil:
		c.log()
	default:
		h.dropped += c.events
		if h.logger != nil {
			h.logger.Warn("trace functions or logger too slow", "dropped_events", c.events, "dropped_records", c.records)
		}
	}
}

const tracePanicked = "trace function panicked"

// logPanic logs that AcquireStart has panicked, on the goroutine of a call.
func (h *hooks) logPanic(p any) { h.log(slog.LevelError, tracePanicked, "panic", p) }
