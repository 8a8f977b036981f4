package zkrecipes

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
)

// Visit is a member that has entered a DoubleBarrier. It is safe for concurrent use. The
// methods of a zero Visit return an error, like those of a zero Lease.
type Visit struct {
	visit *barrier.Visit
	l     *Lease
}

// Path returns the path of the DoubleBarrier as the caller gave it, without
// Options.Prefix.
func (v *Visit) Path() string { return v.held().Path() }

// held returns the member's lease, nil if there is none.
func (v *Visit) held() *Lease {
	if v == nil {
		return nil
	}
	return v.l
}

// Context returns a context that ends with parent or with the visit. Its cause is
// ErrReleased if Leave was called, ErrLost if the visit was lost (its session ended,
// or its znode was deleted), and ErrClosed if the Client was closed. parent must not
// be nil.
func (v *Visit) Context(parent context.Context) context.Context { return v.held().Context(parent) }

// Err returns nil while the visit lasts, and from then on an error that is ErrReleased,
// ErrLost or ErrClosed. It sends nothing.
func (v *Visit) Err() error { return v.held().Err() }

// Leave ends the visit, and returns when all members for which the barrier was opened
// have left or died. It does not wait for members that came for a later opening. It
// blocks until then, through disconnections and the end of the session.
//
//   - ctx's error is returned if ctx ended first. This member has left then, and others
//     have not. A second Leave goes on waiting.
//   - ErrLost or ErrClosed is returned if the visit had ended before. Leave then waits
//     for nobody.
//
// Leave costs one request and one commit, even for the last member, which also deletes
// ready. It costs a listing and a read to begin with, and two of them at each wake. Most
// members wake once. The member whose znode sorts first wakes for each member that
// sorts last when it looks.
func (v *Visit) Leave(ctx context.Context) error {
	if v == nil || v.visit == nil {
		return fail("leave", "", errors.New("not made by Enter"))
	}
	return fail("leave", v.visit.D.Line.Path, v.visit.Leave(ctx))
}
