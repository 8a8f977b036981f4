package hold

import (
	"context"
	"sync"
)

// Handle is one entry into a grant. The holder has one, and so has each call that has
// re-entered.
type Handle struct {
	Grant *Grant

	// own is a context that ends with the handle alone.
	own    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	err   error
	ended chan struct{} // closed once err is set and its contexts have ended
	// contexts are those that have not ended and can end before the handle does.
	contexts map[context.Context]context.CancelCauseFunc
	// done is made when Release is called, and closed when it returns.
	done   chan struct{}
	result error
}

// Holder is what a context of a holder says of it, under the address.
type Holder struct {
	Handle    *Handle
	Reentrant bool
}

// Fail wraps an error for the user.
func (h *Handle) Fail(op string, err error) error {
	return h.Grant.At.Fail(op, err)
}

// end ends the handle and its contexts, once. That calls methods of their parents, which
// are the user's, so the lock must not be held. It returns when they have ended, whoever does it.
func (h *Handle) end(cause error) {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		<-h.ended
		return
	}
	defer close(h.ended)
	h.err = cause
	contexts := h.contexts
	h.contexts = nil
	h.mu.Unlock()
	cause = h.Fail("hold", cause)
	h.cancel(cause)
	for _, cancel := range contexts {
		cancel(cause)
	}
}

// Failure returns why the handle has ended, nil while it is held.
func (h *Handle) Failure() error {
	err := h.Grant.endIfLost() // the grant ends before its handles do
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		err = h.err
	}
	return err
}

// Release releases the handle, once.
func (h *Handle) Release() error {
	h.mu.Lock()
	if h.done != nil {
		h.mu.Unlock()
		<-h.done
		return h.result
	}
	h.done = make(chan struct{})
	h.mu.Unlock()
	h.result = h.Fail("release", h.Grant.releaseHandle(h))
	close(h.done)
	return h.result
}

// ReenterWith returns a context with which calls on the same path re-enter.
func (h *Handle) ReenterWith(ctx context.Context) context.Context {
	return context.WithValue(ctx, h.Grant.At, Holder{Handle: h, Reentrant: true})
}

// Context returns a context that ends with parent or with the handle. A parent that never ends gets
// the handle's own, so that what the handle keeps does not grow with the number of calls.
func (h *Handle) Context(parent context.Context) context.Context {
	h.Grant.endIfLost()
	if parent.Done() == nil {
		return ownContext{h.own, parent}
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, h.Grant.At, Holder{Handle: h}))
	h.endWith(ctx, cancel)
	return ctx
}

// endWith makes ctx end with the handle. A context.AfterFunc of own would do that in
// a goroutine, maybe after the thing is deleted (H3).
func (h *Handle) endWith(ctx context.Context, cancel context.CancelCauseFunc) {
	if ctx.Err() != nil { // with its parent: a map that has grown does not shrink
		return
	}
	h.mu.Lock()
	err := h.err
	if err == nil {
		h.contexts[ctx] = cancel
	}
	h.mu.Unlock()
	if err != nil {
		cancel(h.Fail("hold", err))
		return
	}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.contexts, ctx)
	})
}

// ownContext is a handle's own context with the values of a parent that never ends.
type ownContext struct {
	context.Context
	parent context.Context
}

func (c ownContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.parent.Value(key)
}
