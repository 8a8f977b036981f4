package fence

import (
	"context"
	"fmt"
	"sync"
)

// Memory is a guard for a service of one process. It keeps the highest token of each fence in
// memory, a few dozen bytes for each name. It is safe for concurrent use.
//
// A restart forgets all tokens. So a Memory refuses every holder of a fence, with ErrUnknown,
// until it knows the lowest token that may pass: from its function, or from [Memory.Raise].
// Otherwise the first request after a restart could be that of a former holder. The zero Memory has no
// function. Two processes with a Memory each do not know what the other has seen: use [SQL].
type Memory struct {
	lowest func(ctx context.Context, name string) (int64, error)

	mu     sync.Mutex
	fences map[string]*remembered
}

// remembered is what a Memory knows of one fence.
type remembered struct {
	token int64                  // the highest so far
	under map[*admitted]struct{} // what is under way
	left  chan struct{}          // closed, and made anew, when one of under is done
}

// admitted is a call of Admit from its begin until done.
type admitted struct {
	tokens map[string]int64 // of the fences that it has entered
	end    context.CancelCauseFunc
}

// NewMemory returns a guard that has seen no token. It calls lowest for the first holder of each
// fence, and no holder with a lower token passes from then on. Several calls may run at once. An
// error refuses that holder, and the next one calls again. With nil, use [Memory.Raise].
//
// lowest may ask ZooKeeper for the token of the present holder, as Contenders returns it, and
// return an error if nobody holds. A Client of the new process sees at least the holders from before
// the restart: the servers open its session by a transaction, unless they use local sessions
// (localSessionsEnabled).
func NewMemory(lowest func(ctx context.Context, name string) (int64, error)) *Memory {
	return &Memory{lowest: lowest}
}

// Raise refuses holders of the fence with a lower token from now on, and ends the contexts of
// those that Admit has let through. It does nothing if the fence is that high already. 0 lets
// any holder pass that comes first: use it only for a fence that no holder has passed before.
func (m *Memory) Raise(name string, lowest int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fences[name]
	if f == nil {
		if m.fences == nil {
			m.fences = map[string]*remembered{}
		}
		f = &remembered{under: map[*admitted]struct{}{}, left: make(chan struct{})}
		m.fences[name] = f
	}
	f.token = max(f.token, lowest)
	f.endLower(claim{name, f.token})
}

// Admit refuses a holder if one with a higher token was admitted. It ends the work of holders with
// lower tokens, by its context with ErrFenced as the cause, and waits until they have called done.
// Holders with the same token do not wait for each other. So what is done between Admit and done
// is never done by an earlier holder after a later one.
//
// It blocks until then, or until ctx ends.
func (m *Memory) Admit(ctx context.Context, h Holder) (work context.Context, done func(), err error) {
	cs, err := claims(h)
	if err != nil {
		return nil, nil, err
	}
	work, end := context.WithCancelCause(ctx)
	a := &admitted{tokens: map[string]int64{}, end: end}
	entered := false
	defer func() {
		if !entered { // or lowest has panicked
			m.leave(a)
		}
	}()
	for _, c := range cs {
		if err := m.enter(work, c, a); err != nil {
			return nil, nil, err
		}
	}
	entered = true
	return work, sync.OnceFunc(func() { m.leave(a) }), nil
}

// enter waits until no earlier holder of the fence is at work, and enters a. ctx is that of a's
// work: it also ends if a later holder comes at a fence that a has entered before.
func (m *Memory) enter(ctx context.Context, c claim, a *admitted) error {
	if err := m.know(ctx, c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fences[c.name]
	for {
		if err := c.check(f.token); err != nil { // in the first turn, or a later one came meanwhile
			return err
		}
		f.token = c.token
		if !f.endLower(c) {
			a.tokens[c.name] = c.token
			f.under[a] = struct{}{}
			return nil
		}
		left := f.left
		m.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return c.fail(fmt.Errorf("waiting for an earlier holder: %w", context.Cause(ctx)))
		}
	}
}

// know learns the lowest token of a fence that is new.
func (m *Memory) know(ctx context.Context, c claim) error {
	m.mu.Lock()
	known := m.fences[c.name] != nil
	m.mu.Unlock()
	switch {
	case known:
		return nil
	case m.lowest == nil:
		return c.fail(ErrUnknown)
	}
	lowest, err := m.lowest(ctx, c.name)
	if err != nil {
		return c.fail(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	m.Raise(c.name, lowest)
	return nil
}

// endLower ends what is under way with a lower token, and reports whether there is any.
func (f *remembered) endLower(c claim) (any bool) {
	for a := range f.under {
		if token := a.tokens[c.name]; token < c.token {
			any = true
			a.end(claim{c.name, token}.check(c.token))
		}
	}
	return any
}

func (m *Memory) leave(a *admitted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range a.tokens {
		f := m.fences[name]
		delete(f.under, a)
		close(f.left)
		f.left = make(chan struct{})
	}
	a.end(nil)
}
