package zkrecipes

import (
	"context"
	"errors"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Shutdown closes the Client once its work is done. It blocks until then, or until ctx
// ends, and then closes the Client as Close does. Give ctx a deadline.
//
// From the call on, nothing is granted any more. Calls that wait for a grant or for others
// return ErrClosed, and so do later ones: all forms of Lock, Take, Acquire and Campaign,
// including those that only try, Wait of a Barrier or a Gate, and Enter. Serve takes no more
// items and lets its handlers finish, as if its context had ended: QueueOptions.DrainTimeout
// counts from then. The context that Lead gives its function ends, and Lead resigns once the
// function has returned. The process leaves locks that KeepFor keeps and that nobody holds.
//
// Shutdown then waits until
//   - every Lease, SlotLease, Term, Visit and Item is over: released, acked, given back or
//     lost. Until then, their contexts do not end, and their methods work, including
//     re-entries by Lease.Reentrant.
//   - every call of Serve, Lead and Visit.Leave has returned.
//
// The deadline of ctx bounds that for the whole process. A DrainTimeout, which should be
// shorter, bounds the handlers of one Serve.
//
// Until all that is over, Put, PutAll, Redrive, Remove, Purge, Resize, Shut and Open work, so that
// finished work can be handed on. From then on they return ErrClosed, and Shutdown waits for the
// transactions under way: a Purge or a Redrive that takes several may return ErrClosed in the
// middle, with the number of items that were removed or moved. Calls that only read, including
// Observe, work until the Client is closed.
//
//   - nil, or the error of Close, is returned if all was over before ctx ended, or if Close
//     is called meanwhile or was called before: then Shutdown waits for nothing else.
//   - The error of ctx, joined with that of Close if it fails, is returned if ctx ended
//     first. What was not over has ended then, as by Close.
//
// Shutdown may be called again, also while another call waits. The Client is closed as soon
// as ctx ends for one of them. In a handler of Serve, in the function of Do or Lead, or by a
// holder that has yet to release, Shutdown would wait for itself, until ctx ends. A Trace
// function may call it, but not AcquireStart. The functions that follow are called after it
// has returned.
//
// Shutdown costs nothing but the deletion of the kept places, and what Close costs.
func (c *Client) Shutdown(ctx context.Context) error {
	switch {
	case c == nil:
		return fail("shut down", "", errors.New("nil client"))
	case c.client == nil:
		return fail("shut down", "", errors.New("client was not made by Dial"))
	case ctx == nil:
		return fail("shut down", strings.Join(c.client.Servers, ","), line.ErrNilContext)
	}
	cut := fail("shut down", strings.Join(c.client.Servers, ","), c.finishWork(ctx))
	closed := c.Close()
	if cut == nil {
		return closed
	}
	return errors.Join(cut, closed)
}

// finishWork ends what waits, and waits for what is at work. It returns an error if ctx ends
// before the work does.
func (c *Client) finishWork(ctx context.Context) error {
	over := c.client.StopGrants()
	keep.LeaveIdle(c.client)
	if err := c.client.AwaitWork(ctx, &c.client.Held, over, "leases, items and calls of Serve, Lead or Leave"); err != nil {
		return err
	}
	return c.client.AwaitWork(ctx, &c.client.Writes, c.client.Writes.Stop(), "puts and other writes")
}
