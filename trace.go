package zkrecipes

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Trace is a set of functions that are called when something happens. Any of them
// may be nil. They are called one after the other, in the order of events, from a
// goroutine of their own: a slow function delays the others, never a lock. They
// may call the library, even Close, which does not wait for them. If a function
// panics, the panic is logged and the next function is called.
//
// At most 10,000 calls wait, those of the Logger included. What comes while so many
// wait is dropped and counted, see TraceEvent.Dropped.
type Trace struct {
	// Queued: a call has taken a place in a line, and other places are ahead. It is
	// called again when the wait goes on in a new session, at the end of the line.
	Queued func(TraceEvent)
	// Granted: a lease was granted.
	Granted func(TraceEvent)
	// Released: the holder released a lease, or closed the Client. The lease's znode
	// may still exist while the client is disconnected.
	Released func(TraceEvent)
	// Lost: a lease ended in any other way; Err says why.
	Lost func(TraceEvent)
	// SessionUp: the client is connected, for the first time in a session or again.
	SessionUp func(TraceEvent)
	// SessionDown: the connection was lost or, if Err is ErrLost, the session ended.
	SessionDown func(TraceEvent)
}

// TraceEvent is the argument of a Trace function.
type TraceEvent struct {
	Time    time.Time
	Session int64  // ZooKeeper's session id
	Path    string // of the line; empty for session events
	Place   string // the znode's name; empty for session events
	Token   Token  // of a grant, else 0
	Ahead   int    // Queued: how many places are ahead
	Err     error  // Lost, SessionDown

	// Dropped is how many events were dropped since the last call of one of the
	// Trace's functions, because the functions or the Logger were too slow. The Logger
	// gets a record of it, too.
	Dropped int
}

// maxHookCalls bounds the calls that wait for a slow function.
const maxHookCalls = 10_000

// hooks calls Trace functions and the Logger in order, outside of all locks. Its
// goroutine lives as long as there is something to call.
type hooks struct {
	trace  Trace
	logger *slog.Logger // may be nil

	mu      sync.Mutex
	queue   []hookCall
	running bool

	dropped int // events that were dropped since one was told last; only run uses it
}

// hookCall is a call of a Trace function or of the Logger, or the place of calls that
// were dropped.
type hookCall struct {
	f     func(TraceEvent)
	event TraceEvent

	log func()

	events, records int // that were dropped
}

func (h *hooks) tell(f func(TraceEvent), e TraceEvent) {
	if f == nil {
		return
	}
	e.Time = time.Now()
	h.later(hookCall{f: f, event: e})
}

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
	if c.f != nil {
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
			h.logger.Error("trace function panicked", "panic", p)
		}
	}()
	switch {
	case c.f != nil:
		c.event.Dropped, h.dropped = h.dropped, 0
		c.f(c.event)
	case c.log != nil:
		c.log()
	default:
		h.dropped += c.events
		if h.logger != nil {
			h.logger.Warn("trace functions or logger too slow", "dropped events", c.events, "dropped records", c.records)
		}
	}
}
