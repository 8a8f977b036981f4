package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Lead campaigns, calls f while the process leads, and resigns once f has returned. f's
// context ends with ctx or when the leadership is lost. Client.Shutdown ends it, too. f
// should return as soon as its context ends. Until it does, the process does not lead again,
// but another one may, so f should write by Term.Commit or with Term.Token.
//
// After a loss, Lead waits until f has returned, logs its error, and campaigns again,
// whatever the error is: most are due to the end of the context. Otherwise Lead ends with f
// and returns f's error, or nil, joined with the error of Resign. If only the servers knew of
// the loss when f returned, Lead campaigns again if f failed, and returns ErrLost if not. It
// also ends when ctx ends while it campaigns, or when Campaign fails for any reason but an
// eviction from the line. While the session has no room (ErrSessionFull), Lead logs that and
// campaigns again after a pause. If f panics, Lead resigns first.
//
// In a process, at most one call of Lead campaigns or leads for a Client and path at a
// time, and others wait for it. So there are never two calls of f at once. ErrDeadlock is
// returned if ctx is a context of the leader, also a Reentrant one, and also after a loss
// while the f of that leader still runs.
func (e *Election) Lead(ctx context.Context, value []byte, f func(context.Context, *Term) error) error {
	r := e.self()
	err := r.check(ctx)
	switch {
	case err != nil:
	case f == nil:
		err = errors.New("nil function")
	default:
		if h, ok := r.holderIn(ctx); ok && (h.Handle.Failure() == nil || leadsWith(r.Client, r.Line.Path, h.Handle.Grant)) {
			err = ErrDeadlock
		}
	}
	if err != nil {
		return fail("lead", r.path(), err)
	}
	value = slices.Clone(value)
	if !r.Client.Held.Begin() {
		return fail("lead", r.path(), ErrClosed)
	}
	defer r.Client.Held.End()
	bound, done := r.Client.BindWait(ctx)
	defer done()
	// f may pass this context to other Clients, so it must not end as if they were closed.
	leading, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(r.Client.Waiting, func() { end(ErrClosed) })()
	for {
		if again, err := e.leadOnce(bound, leading, value, f); !again {
			return err
		}
	}
}

// leadOnce campaigns with ctx and leads for one term. f's context is derived from leading.
// again: the term was lost.
func (e *Election) leadOnce(ctx, leading context.Context, value []byte, f func(context.Context, *Term) error) (again bool, err error) {
	c, path := e.line.Client, e.line.Path
	turn, err := takeLead(ctx, c, path)
	if err != nil {
		return false, fail("lead", path, err)
	}
	defer endLead(c, path, turn)
	t, err := e.campaign(ctx, "lead", value, enterWithRoom)
	if err != nil {
		return ctx.Err() == nil && errors.Is(err, ErrEvicted), err
	}
	turn.g.Store(t.lease.handle.Grant)
	defer func() { // also if f panics
		why := t.Err()
		resigned := t.Resign()
		switch {
		case errors.Is(why, ErrLost), err != nil && errors.Is(resigned, ErrLost):
			c.Log(slog.LevelWarn, "leadership lost; campaigning again", "path", path, "cause", resigned, "err", err)
			again = true
		case resigned != nil:
			err = errors.Join(err, resigned)
		}
	}()
	return false, f(t.Context(leading), t)
}

// leadTurn is the turn of a call of Lead in its process.
type leadTurn struct {
	g   atomic.Pointer[line.Grant] // with which it leads or has led; nil: none yet
	end chan struct{}              // closed at the end
}

// leadTurns are the turns of a Client, by path.
type leadTurns struct {
	mu    sync.Mutex
	turns map[string]*leadTurn
}

func leadsOf(c *line.Client) *leadTurns {
	return line.Attached(&c.Attached, func() *leadTurns { return &leadTurns{turns: map[string]*leadTurn{}} })
}

// takeLead waits, until ctx ends, until no other call of Lead campaigns or leads on that
// path. endLead must be called in the end.
func takeLead(ctx context.Context, c *line.Client, path string) (*leadTurn, error) {
	for all := leadsOf(c); ; {
		all.mu.Lock()
		busy := all.turns[path]
		if busy == nil {
			mine := &leadTurn{end: make(chan struct{})}
			all.turns[path] = mine
			all.mu.Unlock()
			return mine, nil
		}
		all.mu.Unlock()
		if err := c.AwaitEnd(ctx, busy.end); err != nil {
			return nil, err
		}
	}
}

func endLead(c *line.Client, path string, turn *leadTurn) {
	all := leadsOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.turns, path)
	close(turn.end)
}

// leadsWith reports whether the function of a call of Lead still runs with that grant,
// which may have been lost.
func leadsWith(c *line.Client, path string, g *line.Grant) bool {
	all := leadsOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	turn := all.turns[path]
	return turn != nil && turn.g.Load() == g
}

// enterWithRoom is like enterAsLeader. As long as the session has no room for a candidate, it
// tries again, without a place in the line: others lead meanwhile.
func enterWithRoom(ctx context.Context, l *line.Line, k line.Kind, value []byte) (*line.Grant, error) {
	for logged := false; ; logged = true {
		g, err := election.Enter(ctx, l, k, value)
		if !errors.Is(err, ErrSessionFull) {
			return g, err
		}
		if !logged {
			l.Client.Log(slog.LevelWarn, "session is full; it does not campaign until there is room", "path", l.Path, "err", err)
		}
		if err := l.Client.PauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}
