package zkconn

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Outcome is how a transaction went. Mostly it was applied as a whole, or the server refused
// one of its operations, and then nothing was done.
type Outcome struct {
	ops     []any
	results []zk.MultiResponse // none where an earlier attempt was applied whose reply was lost
	refused any                // the first operation that the server refused, nil if there is none
	err     error
}

// Failure is the outcome of a transaction that failed as a whole.
func Failure(err error) Outcome { return Outcome{err: err} }

// AppliedBefore is the outcome of a transaction that was carried out and whose reply was lost, as its
// caller knows from how it was refused when it was sent again. It has no results.
func (s *Session) AppliedBefore(ops ...any) Outcome {
	s.account.appliedBefore(ops)
	return Outcome{}
}

// Because returns the outcome with that error in place of its own.
func (o Outcome) Because(err error) Outcome {
	o.err = err
	return o
}

// Err returns nil if the transaction was applied, and otherwise the error of the operation
// that was refused, or of the whole transaction.
func (o Outcome) Err() error { return o.err }

// Applied reports whether the transaction was carried out.
func (o Outcome) Applied() bool { return o.err == nil }

// Is reports whether the error is one of these.
func (o Outcome) Is(causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(o.err, cause) })
}

// Refused reports whether the server refused an operation. If not, the transaction was
// applied, or it failed as a whole.
func (o Outcome) Refused() bool { return o.refused != nil }

// RefusedAt reports whether the server refused op, with one of these errors. Without any, it
// may be any error.
func (o Outcome) RefusedAt(op any, causes ...error) bool {
	return o.Refused() && o.refused == op && (len(causes) == 0 || o.Is(causes...))
}

// RefusedIn is like RefusedAt for several operations.
func (o Outcome) RefusedIn(ops []any, causes ...error) bool {
	return o.IndexIn(ops) >= 0 && (len(causes) == 0 || o.Is(causes...))
}

// IndexIn returns the index in ops of the operation that the server refused, -1 if it is none
// of them.
func (o Outcome) IndexIn(ops []any) int {
	if !o.Refused() {
		return -1
	}
	return slices.Index(ops, o.refused)
}

// RefusedCheck returns the operation that the server refused, if that is a check, and nil
// otherwise.
func (o Outcome) RefusedCheck() *zk.CheckVersionRequest {
	check, _ := o.refused.(*zk.CheckVersionRequest)
	return check
}

// Unsent reports whether the transaction was not sent.
func (o Outcome) Unsent() bool { return errors.Is(o.err, ErrNotSent) }

// Transient reports whether the transaction may be sent again in the same session; see the
// function of that name.
func (o Outcome) Transient() bool { return Transient(o.err) }

// SessionOver reports whether the session ended before the outcome was known.
func (o Outcome) SessionOver() bool { return errors.Is(o.err, ErrSessionOver) }

// HasResults reports whether the transaction was applied, and the reply to it has come.
func (o Outcome) HasResults() bool { return o.err == nil && o.results != nil }

// Results returns the results in the order of the operations.
func (o Outcome) Results() []zk.MultiResponse { return o.results }

// Created returns the path of the znode that op, of this transaction, created.
func (o Outcome) Created(op *zk.CreateRequest) string { return o.results[o.index(op)].String }

// Stat returns the Stat of the znode to which op, of this transaction, set data.
func (o Outcome) Stat(op *zk.SetDataRequest) *zk.Stat { return o.results[o.index(op)].Stat }

// Has reports whether op is one of this transaction.
func (o Outcome) Has(op any) bool { return o.index(op) >= 0 }

func (o Outcome) index(op any) int { return slices.Index(o.ops, op) }
