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
}

// hooks calls Trace functions and the Logger in order, outside of all locks. Its
// goroutine lives as long as there is something to call.
type hooks struct {
	trace  Trace
	logger *slog.Logger // may be nil

	mu      sync.Mutex
	queue   []func()
	running bool
}

func (h *hooks) tell(f func(TraceEvent), e TraceEvent) {
	if f == nil {
		return
	}
	e.Time = time.Now()
	h.later(func() { f(e) })
}

// log writes a record to the Logger, whose handler is the user's.
func (h *hooks) log(level slog.Level, msg string, args ...any) {
	if h.logger != nil {
		h.later(func() { h.logger.Log(context.Background(), level, msg, args...) })
	}
}

func (h *hooks) later(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, f)
	if !h.running {
		h.running = true
		go h.run()
	}
}

func (h *hooks) run() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.running = false
			h.mu.Unlock()
			return
		}
		f := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.call(f)
	}
}

func (h *hooks) call(f func()) {
	defer func() {
		if p := recover(); p != nil {
			defer func() { _ = recover() }() // it may be the Logger that panics
			if h.logger == nil {
				return
			}
			h.logger.Error("trace function panicked", "panic", p)
		}
	}()
	f()
}
