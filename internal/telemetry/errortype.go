package telemetry

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// errorTypes returns what ErrorType makes of errors. The first that fits counts.
func errorTypes() []errorType {
	return []errorType{
		{zkrecipes.ErrUncertain, "uncertain"}, // whatever else it is
		{zkrecipes.ErrClosed, "closed"},
		{context.DeadlineExceeded, "deadline_exceeded"}, // whatever its cause is
		{context.Canceled, "canceled"},
		{zkrecipes.ErrMaxHold, "max_hold"}, // which is ErrLost, too
		{zkrecipes.ErrLost, "lost"},
		{zkrecipes.ErrEvicted, "evicted"},
		{zkrecipes.ErrReleased, "released"},
		{zkrecipes.ErrLocked, "locked"}, // a refused try may be ErrUpgrade, too
		{zkrecipes.ErrEmpty, "empty"},
		{zkrecipes.ErrDeadlock, "deadlock"},
		{zkrecipes.ErrUpgrade, "upgrade"},
		{zkrecipes.ErrExhausted, "exhausted"},
		{zkrecipes.ErrInvalidPath, "invalid_path"},
		{zkrecipes.ErrPathInUse, "path_in_use"},
		{zkrecipes.ErrTooLarge, "too_large"},
		{zkrecipes.ErrSessionFull, "session_full"},
		{zkrecipes.ErrQuotaExceeded, "quota_exceeded"},
		{zkrecipes.ErrContended, "contended"},
		{zkrecipes.ErrSize, "size"},
		{zk.ErrNoAuth, "no_auth"},
		{zk.ErrAuthFailed, "auth_failed"}, // the servers require SASL
	}
}

type errorType struct {
	err  error
	name string
}

// ErrorType returns the value of the attribute error.type for the error of an acquisition or of
// a hold: one of few names, "_OTHER" if there is none for it, and empty without an error.
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	for _, t := range errorTypes() {
		if errors.Is(err, t.err) {
			return t.name
		}
	}
	return "_OTHER"
}

// IsOrderly reports whether an acquisition that ended with the error ended in the ordinary
// course of things: it succeeded, was canceled or refused, or the client is being closed.
func IsOrderly(err error) bool {
	switch ErrorType(err) {
	case "", "canceled", "closed", "locked", "empty":
		return true
	}
	return false
}
