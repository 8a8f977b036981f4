// Package errs has the errors that the packages below the root return and test for. The root
// documents those that users see.
package errs

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Those that users see.
var (
	ErrLocked           = errors.New("held or waited for by others")
	ErrLost             = errors.New("lease lost")
	ErrReleased         = errors.New("lease released")
	ErrEvicted          = errors.New("evicted from the line")
	ErrDeadlock         = errors.New("the caller holds this lock already (Lease.Reentrant lets it re-enter)")
	ErrUpgrade          = errors.New("the caller holds this lock as a reader, and readers cannot become writers")
	ErrUncertain        = errors.New("outcome unknown")
	ErrClosed           = errors.New("client closed")
	ErrExhausted        = errors.New("sequence numbers of this line are used up")
	ErrSessionNotClosed = errors.New("session is left to time out")
	ErrSize             = errors.New("wrong size")
	ErrUnused           = errors.New("nobody uses this path")
	ErrItemGone         = errors.New("no such item")
)

// ErrExpired is the end of a call that waits as a member, by the end of its session.
var ErrExpired = fmt.Errorf("%w: the session ended while waiting: %w", ErrLost, zk.ErrSessionExpired)

// ErrPlaceLost is the error of a place that is gone, if the servers may have lost it. A call that
// waits in a line joins again. For a member it is like the end of its session.
var ErrPlaceLost = fmt.Errorf("%w: the servers have lost its znode", ErrLost)

// Unused is ErrUnused for an error that says that there is no znode.
func Unused(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", ErrUnused, err)
	}
	return err
}

// UncertainIf joins ErrUncertain to err if an attempt before may have been carried out.
func UncertainIf(doubt bool, err error) error {
	if !doubt {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

var ErrNilContext = errors.New("nil context")

// IsContextErr reports whether err says that ctx has ended. A Client that is closed
// also ends the contexts that Client.Bind returns, with ErrClosed.
func IsContextErr(ctx context.Context, err error) bool {
	return zkconn.IsContextErr(ctx, err) || ctx.Err() != nil && err == ErrClosed
}
