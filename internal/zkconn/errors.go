package zkconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

var (
	// ErrSessionOver is the error of a request whose session has ended.
	ErrSessionOver = fmt.Errorf("session over: %w", zk.ErrSessionExpired)

	// ErrNotSent is the error of a request whose connection was lost before the
	// request was written to it.
	ErrNotSent = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, wire.ErrNotSent)

	// ErrContended is returned after MaxTries attempts that others have undone.
	ErrContended = fmt.Errorf("gave up after %d attempts: others kept changing the znode", MaxTries)

	// ErrInvalidPath is what session.CheckPath returns.
	ErrInvalidPath = errors.New("invalid path")

	// ErrPathInUse is returned for a znode that something else has made its own.
	ErrPathInUse = errors.New("path is in use by something else")

	// ErrTooLarge is what CheckSize returns.
	ErrTooLarge = errors.New("too large")

	// ErrSessionFull is the error of a transaction that was not sent, because the session has
	// no room for the ephemeral znodes that it creates.
	ErrSessionFull = errors.New("session full")

	// ErrQuotaExceeded is the servers' answer to a write above a quota.
	ErrQuotaExceeded = fmt.Errorf("quota exceeded (error %d of the server)", jute.ErrQuotaExceeded)
)

// Errorf returns an error with a text of its own that is also kind, for errors.Is.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}

type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// MaxTries bounds what is repeated because others undo it: containers that the
// servers reap before they are used, data that changes between read and write.
const MaxTries = 16

// Transient reports whether a request that failed with err may be sent again in
// the same session. It may have been applied or not.
//
// The cause of a context does not count: it may be the loss of another client's
// lease, whose session has expired.
func Transient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, e := range []error{
		zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrNoServer,
		zk.ErrSessionExpired, zk.ErrSessionMoved, // the next handshake tells
		zk.ErrNothing, // see codeErrors: timed out on the server, or throttled
	} {
		if errors.Is(err, e) {
			return !errors.Is(err, ErrSessionOver)
		}
	}
	return false
}

// ContextErr returns why ctx has ended: its error and, where it differs, its
// cause. The result is a *ContextError then.
func ContextErr(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	if s, ok := cause.(stopped); ok {
		return s.error
	}
	return &ContextError{Err: err, Cause: cause}
}

// IsContextErr reports whether err is what ContextErr returned for ctx.
func IsContextErr(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || err == ContextErr(ctx))
}

// Until waits until something comes from c, which may be that c is closed. It fails if the session or
// ctx ends before.
func Until[T any](ctx context.Context, s *Session, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-s.Over():
		return ErrSessionOver
	case <-ctx.Done():
		return s.ContextErr(ctx)
	}
}

// ContextErr is like the function ContextErr. While requests do not pass, or are refused for
// now, the result also says why.
func (s *Session) ContextErr(ctx context.Context) error {
	s.mu.Lock()
	offline := s.lastErr
	if s.up {
		offline = nil
	}
	s.mu.Unlock()
	err, refused := ContextErr(ctx), s.refusals.last()
	if _, ended := context.Cause(ctx).(stopped); ended || offline == nil && refused == nil {
		return err
	}
	e, ok := err.(*ContextError)
	if !ok {
		e = &ContextError{Err: err}
	}
	e.Offline, e.Refused = offline, refused
	return e
}

// ContextError keeps the cause of a context apart from the outcome of a request:
// errors.Is and errors.As do not find it. The cause may be the loss of another
// lease, or wrap an error of the servers. So may what prevents a connection.
type ContextError struct {
	Err     error
	Cause   error // nil: Err itself
	Offline error // why there was no connection; nil: there was one
	Refused error // why the servers refuse requests for now; nil: they do not
}

func (e *ContextError) Error() string {
	text := e.Err.Error()
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	if e.Offline != nil {
		text += ": no connection: " + e.Offline.Error()
	}
	if e.Refused != nil {
		text += ": refused for now: " + e.Refused.Error()
	}
	return text
}

func (e *ContextError) Unwrap() error { return e.Err }

// Stopped returns a cause for a context that this library ends although the
// caller's own context has not ended. ContextErr returns err alone for it.
func Stopped(err error) error { return stopped{err} }

// WasStopped reports whether ctx ended with a cause that Stopped made.
func WasStopped(ctx context.Context) bool {
	_, ok := context.Cause(ctx).(stopped)
	return ok
}

type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// codeError returns go-zookeeper's error for a server's code, nil for 0.
func codeError(code int32) error {
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return errors.New(jute.ErrorName(code))
}

var codeErrors = map[int32]error{
	0: nil,

	// The text says what it means that a server answers so.
	jute.ErrUnimplemented: fmt.Errorf("%s: the server does not know the operation; is it older than ZooKeeper 3.6?", jute.ErrorName(jute.ErrUnimplemented)),
	jute.ErrNotReadOnly:   fmt.Errorf("%s: the server has no quorum and only serves reads", jute.ErrorName(jute.ErrNotReadOnly)),
	jute.ErrLocalSession: fmt.Errorf("%s: the session is local to its server and may not have ephemeral znodes "+
		"(localSessionsEnabled without localSessionsUpgradingEnabled)", jute.ErrorName(jute.ErrLocalSession)),
	jute.ErrQuotaExceeded: ErrQuotaExceeded,
	jute.ErrSASL:          Errorf(zk.ErrAuthFailed, "%s: the server requires SASL (Options.SASL)", jute.ErrorName(jute.ErrSASL)),

	// go-zookeeper has no names for these.
	jute.ErrConnectionLoss:   Errorf(zk.ErrNothing, "%s", jute.ErrorName(jute.ErrConnectionLoss)),
	jute.ErrOperationTimeout: Errorf(zk.ErrNothing, "%s", jute.ErrorName(jute.ErrOperationTimeout)),
	jute.ErrThrottled:        Errorf(zk.ErrNothing, "%s", jute.ErrorName(jute.ErrThrottled)),

	jute.ErrBadArguments:            zk.ErrBadArguments,
	jute.ErrNoNode:                  zk.ErrNoNode,
	jute.ErrNoAuth:                  zk.ErrNoAuth,
	jute.ErrBadVersion:              zk.ErrBadVersion,
	jute.ErrNoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	jute.ErrNodeExists:              zk.ErrNodeExists,
	jute.ErrNotEmpty:                zk.ErrNotEmpty,
	jute.ErrSessionExpired:          zk.ErrSessionExpired,
	jute.ErrInvalidACL:              zk.ErrInvalidACL,
	jute.ErrAuthFailed:              zk.ErrAuthFailed,
	jute.ErrSessionMoved:            zk.ErrSessionMoved,
}
