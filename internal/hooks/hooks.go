// Package hooks calls the functions of a user, those of a Trace and the handler of a Logger, in
// order and outside of all locks.
package hooks

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// MaxCalls bounds the calls that wait for a slow function.
const MaxCalls = 10_000

// Caller makes the calls one after the other. Its goroutine lives as long as there is something
// to call.
type Caller struct {
	logger *slog.Logger

	mu      sync.Mutex
	queue   []call
	running bool

	// dropped is how many events were dropped since the last one was delivered. Only run uses it.
	dropped int
}

// New returns a Caller that logs to logger, which may be nil.
func New(logger *slog.Logger) *Caller { return &Caller{logger: logger} }

// call is a call of a Trace function or of the Logger, or the place of calls that
// were dropped.
type call struct {
	// tell gets how many were dropped since the last one.
	tell func(dropped int)
	log  func()

	// events and records are how many were dropped.
	events, records int
}

// Tell calls a Trace function, by way of f, later.
func (h *Caller) Tell(f func(dropped int)) { h.later(call{tell: f}) }

// Log writes a record to the Logger, later. Of records for debugging it asks first whether they
// are wanted: there may be several for each grant.
func (h *Caller) Log(level slog.Level, msg string, args ...any) {
	ctx := context.Background()
	if h.logger == nil || level < slog.LevelInfo && !h.logger.Enabled(ctx, level) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:])
	r := slog.NewRecord(time.Now(), level, msg, caller[0]) // a slow function does not falsify its time
	r.Add(args...)
	h.later(call{log: func() {
		if to := h.logger.Handler(); to.Enabled(ctx, level) {
			_ = to.Handle(ctx, r)
		}
	}})
}

func (h *Caller) later(c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= MaxCalls {
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
func (h *Caller) drop(c call) {
	last := &h.queue[len(h.queue)-1]
	if last.events+last.records == 0 {
		h.queue = append(h.queue, call{})
		last = &h.queue[len(h.queue)-1]
	}
	if c.tell != nil {
		last.events++
	} else {
		last.records++
	}
}

func (h *Caller) run() {
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
		h.queue[0] = call{}
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.call(c)
	}
}

func (h *Caller) call(c call) {
	defer func() {
		if p := recover(); p != nil {
			defer func() { _ = recover() }() // it may be the Logger that panics
			if h.logger == nil {
				return
			}
			h.logger.Error(panickedText, "panic", p)
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

// panickedText is the record's text when a function has panicked.
const panickedText = "trace function panicked"

// LogPanic logs that a function has panicked that was not called by way of Tell.
func (h *Caller) LogPanic(p any) { h.Log(slog.LevelError, panickedText, "panic", p) }
