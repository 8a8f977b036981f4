package errs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

var (
	ErrSilent  = errors.New("no answer from the servers for as long as the session is known to live")
	ErrMaxHold = errors.New("held for as long as MaxHold lets it be")
	ErrGone    = errors.New("its znode was deleted")
	ErrDeleted = fmt.Errorf("%w by somebody else", ErrGone)
	// ErrItemDeleted is the end of a claim whose item is gone, too.
	ErrItemDeleted = fmt.Errorf("%w: %w", ErrDeleted, ErrItemGone)
)

// Deletion is the cause of a grant's end if its znode was deleted: by somebody else, or by the
// servers with the session, of which the client may learn later. It is ErrGone until a server
// has answered a write or the session has ended.
type Deletion struct {
	IfByOther error                 // its cause in the former case
	cause     atomic.Pointer[error] // nil: not known yet
}

func (d *Deletion) Error() string { return d.Unwrap().Error() }

func (d *Deletion) Unwrap() error {
	if cause := d.cause.Load(); cause != nil {
		return *cause
	}
	return ErrGone
}

// Resolve notes how the deletion of the place went, which is a write.
func (d *Deletion) Resolve(s *zkconn.Session, err error) {
	cause := d.IfByOther
	switch {
	case errors.Is(err, zkconn.ErrSessionOver):
		cause = s.Cause()
	case errors.Is(err, ErrItemDeleted):
		cause = ErrItemDeleted
	}
	if cause != nil && !errors.Is(cause, ErrClosed) { // else nobody will know
		d.cause.Store(&cause)
	}
}

// Lost is ErrLost with a cause, or ErrClosed if that is the cause.
func Lost(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return &loss{cause}
}

// loss is ErrLost with a cause. Error builds the text on each call, because the cause may be
// settled later, see Deletion.
type loss struct{ cause error }

func (l *loss) Error() string { return ErrLost.Error() + ": " + l.cause.Error() }

func (l *loss) Unwrap() []error { return []error{ErrLost, l.cause} }
