package line

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// TokenOf returns the token of the nth grant, from 0, of the place with that czxid.
func TokenOf(czxid int64, n int) int64 { return czxid<<grantBits | int64(n) }

const (
	grantBits = 8
	lastGrant = 1<<grantBits - 1
)

// Handle is one entry into a grant. The holder has one, and so has each call that has
// re-entered.
type Handle struct {
	Grant *Grant

	mu   sync.Mutex
	err  error
	ends map[<-chan struct{}]leaseEnd // by the Done of their parents
	// done is made when Release is called, and closed when it returns.
	done   chan struct{}
	result error
}

// HolderKey is the key of a holder in a context.
type HolderKey struct {
	c            *session.Client
	path, recipe string
}

// Holder is what a context of a holder says of it.
type Holder struct {
	Handle    *Handle
	Reentrant bool
}

// Fail wraps an error for the user.
func (h *Handle) Fail(op string, err error) error {
	return h.Grant.Line.Client.Fail(op, h.Grant.Line.Path, err)
}

// end ends the handle and its contexts, once. That calls methods of their parents, which
// are the user's, so the lock must not be held.
func (h *Handle) end(cause error) {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return
	}
	h.err = cause
	ends := h.ends
	h.ends = nil
	h.mu.Unlock()
	for _, e := range ends {
		e.cancel(h.Fail("hold", cause))
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
	return context.WithValue(ctx, h.Grant.Line.Key(), Holder{Handle: h, Reentrant: true})
}

// Context returns a context that ends with parent or with the handle.
func (h *Handle) Context(parent context.Context) context.Context {
	h.Grant.endIfLost()
	return &leaseContext{parent: parent, end: h.endOf(parent), handle: h}
}

// A lease has one context that can be canceled for all parents that end together: those
// with the same Done channel, or with none. So what a lease keeps does not grow with the
// number of contexts that are made of it.

// leaseContext ends with end, and has the values and the deadline of parent.
type leaseContext struct {
	parent context.Context
	end    context.Context
	handle *Handle
}

func (c *leaseContext) Done() <-chan struct{}       { return c.end.Done() }
func (c *leaseContext) Err() error                  { return c.end.Err() }
func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *leaseContext) Value(key any) any {
	if k, ok := key.(HolderKey); ok && k == c.handle.Grant.Line.Key() {
		return Holder{Handle: c.handle}
	}
	if v := c.end.Value(key); v != nil {
		return v
	}
	return c.parent.Value(key)
}

// String is for contexts derived from this one, whose String prints it.
func (c *leaseContext) String() string { return "zkrecipes.Lease.Context" }

// leaseEnd is a context that ends with the lease or with its parents.
type leaseEnd struct {
	context.Context
	cancel context.CancelCauseFunc
}

// endOf returns the context that ends with the lease and with parent. Methods of parent
// are called, so the lock must not be held.
func (h *Handle) endOf(parent context.Context) context.Context {
	done := parent.Done()
	h.mu.Lock()
	e, ok := h.ends[done]
	h.mu.Unlock()
	if ok {
		return e.Context
	}
	if done == nil {
		parent = context.Background()
	} else {
		parent = &withoutValues{Context: parent}
	}
	e.Context, e.cancel = context.WithCancelCause(parent)
	return h.addEnd(done, e)
}

// addEnd returns the context of e or, if another call was quicker, that call's.
func (h *Handle) addEnd(done <-chan struct{}, e leaseEnd) context.Context {
	h.mu.Lock()
	other, ok := h.ends[done]
	err := h.err
	if !ok && err == nil {
		h.ends[done] = e
	}
	h.mu.Unlock()
	switch {
	case ok:
		e.cancel(nil)
		return other.Context
	case err != nil:
		e.cancel(h.Fail("hold", err))
		return e.Context
	}
	context.AfterFunc(e, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.ends, done)
	})
	return e.Context
}

// withoutValues hides the values of a context, which are not those of other parents, and
// would be looked up twice at each level of nested leases. It answers for the context
// package's own key only: that links a child to its parent, and finds the cause. The
// package asks for that key, and no other, when it makes the child.
type withoutValues struct {
	context.Context
	key any
}

func (c *withoutValues) Value(key any) any {
	if c.key == nil {
		c.key = key
	}
	if key != c.key {
		return nil
	}
	return c.Context.Value(key)
}
