//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Exit statuses, most of them of sysexits.h.
const (
	exitFailure     = 1
	exitUsage       = 64 // EX_USAGE
	exitUnavailable = 69 // EX_UNAVAILABLE: no server
	exitSoftware    = 70 // EX_SOFTWARE
	exitIO          = 74 // EX_IOERR: standard output cannot be written
	exitNotAcquired = 75 // EX_TEMPFAIL
	exitLost        = 76
	exitNoPerm      = 77  // EX_NOPERM
	exitConfig      = 78  // EX_CONFIG
	exitCannotExec  = 126 // as shells do
	exitNotFound    = 127
	exitSignal      = 128 // and the signal's number
)

// failure is an error with the exit status that it leads to. Without an error nothing is
// printed.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return fmt.Sprint(f.err) }

func (f *failure) Unwrap() error { return f.err }

// exit returns an error that leads to an exit status and prints nothing. 0 is no error.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &failure{code: code}
}

// failf returns an error that leads to an exit status.
func failf(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// exitCode returns the exit status of an error.
func exitCode(err error) int {
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, zkrecipes.ErrInvalidPath), errors.Is(err, zkrecipes.ErrPathInUse), errors.Is(err, zkrecipes.ErrSize):
		return exitUsage
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed):
		return exitNoPerm
	case errors.Is(err, zkrecipes.ErrEvicted):
		return exitNotAcquired
	case errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailure
}
