package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The errors of the core. The package above documents them.
var (
	coreErrLocked           = errors.New("held or waited for by others")
	coreErrLost             = errors.New("lease lost")
	coreErrReleased         = errors.New("lease released")
	coreErrEvicted          = errors.New("evicted from the line")
	coreErrUpgrade          = errors.New("the caller holds this lock as a reader, and readers cannot become writers")
	coreErrUncertain        = errors.New("outcome unknown")
	coreErrClosed           = errors.New("client closed")
	coreErrExhausted        = errors.New("sequence numbers of this line are used up")
	coreErrSessionNotClosed = errors.New("session is left to time out")
	coreErrSize             = errors.New("wrong size")
)

// errExpired is the end of a call that waits as a member, by the end of its session.
var errExpired = fmt.Errorf("%w: the session ended while waiting: %w", coreErrLost, zk.ErrSessionExpired)

// uncertainIf joins ErrUncertain to err if an attempt before may have been carried out.
func uncertainIf(doubt bool, err error) error {
	if !doubt {
		return err
	}
	return fmt.Errorf("%w: %w", coreErrUncertain, err)
}

var errNilContext = errors.New("nil context")

// isContextErr reports whether err says that ctx has ended. A Client that is closed
// also ends the contexts that Client.bind returns, with ErrClosed.
func isContextErr(ctx context.Context, err error) bool {
	return zkconn.IsContextErr(ctx, err) || ctx.Err() != nil && err == coreErrClosed
}
