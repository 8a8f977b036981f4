package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Transaction is a multi request under way, or the request of its only operation: that costs the
// servers less. Its operations are *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest. Like reads, transactions are sent directly.
type Transaction struct {
	s    *Session
	ops  []any
	op   int32 // of the request
	call *wire.Call

	// outcome and malformed are set when it has ended, if there was a reply.
	outcome   Outcome
	malformed error // why the reply makes no sense
}

// Begin sends a transaction as soon as requests pass. It blocks for that, not for
// the answer.
func (s *Session) Begin(ctx context.Context, ops ...any) (*Transaction, error) {
	return s.BeginBy(ctx, s.Start, ops...)
}

// BeginBehindGet is like Begin, but sends a read of path's data ahead of the
// transaction, in the same write. The server answers the read first.
func (s *Session) BeginBehindGet(ctx context.Context, path string, ops ...any) (r *Reading, t *Transaction, err error) {
	t, err = s.BeginBy(ctx, func(ops ...any) (*Transaction, error) {
		return s.start(ops, 0, func(nc *wire.Conn, op int32, frame []byte, ended func(*wire.Call)) *wire.Call {
			get, call := nc.CallBoth(jute.OpGetData, readFrame(jute.OpGetData, path), op, frame, func(_, call *wire.Call) { ended(call) })
			r = &Reading{call: get}
			return call
		})
	}, ops...)
	return r, t, err
}

// BeginBy is like Begin for a transaction that may no longer be wanted once requests
// pass: start sends it by Start, or returns an error.
func (s *Session) BeginBy(ctx context.Context, start func(ops ...any) (*Transaction, error), ops ...any) (*Transaction, error) {
	for {
		if err := s.Ready(ctx); err != nil {
			return nil, err
		}
		if t, err := start(ops...); !errors.Is(err, ErrNotSent) {
			return t, err
		}
	}
}

// Start sends a transaction now, or fails with ErrNotSent, or with ErrSessionFull if there
// is no room for what it creates. It does not block.
func (s *Session) Start(ops ...any) (*Transaction, error) {
	return s.start(ops, 0, (*wire.Conn).CallThen)
}

// StartSpare is like Start for a transaction without which the caller cannot let go of what
// the session holds: there is some room for it when there is none for others.
func (s *Session) StartSpare(ops ...any) (*Transaction, error) {
	return s.start(ops, s.account.bound/18, (*wire.Conn).CallThen) // the bound is 18/20 of the servers' limit
}

func (s *Session) start(ops []any, spare int, send func(*wire.Conn, int32, []byte, func(*wire.Call)) *wire.Call) (*Transaction, error) {
	op, frame := requestOf(ops)
	if len(frame) > smallestFrame && !isDeparture(ops) {
		if err := s.killers.check(frame); err != nil {
			return nil, err
		}
	}
	nc, err := s.passing(frame)
	if err != nil {
		return nil, err
	}
	if err := s.checkWeight(s.account.begin(ops, spare)); err != nil { // Z3
		return nil, err
	}
	t := &Transaction{s: s, ops: ops, op: op}
	t.call = send(nc, op, frame, t.ended)
	return t, nil
}

// ended decodes the reply, and settles the account whether or not somebody waits (Z3).
func (t *Transaction) ended(call *wire.Call) {
	account := t.s.account
	code, record, err := call.Result()
	if err != nil {
		account.ended(t.ops, nil, !errors.Is(err, wire.ErrNotSent))
		return
	}
	t.outcome, t.malformed = t.read(code, record)
	switch o := t.outcome; {
	case o.Applied() && t.malformed == nil:
		account.ended(t.ops, o.results, false)
	case o.Applied() || o.Transient():
		account.ended(t.ops, nil, true)
	default:
		account.ended(t.ops, nil, false)
		if o.IndexIn(t.ops) == 0 && o.Is(zk.ErrNoNode) {
			account.missed(t.ops[0])
		}
	}
}

// read returns the outcome that a reply tells, and why it makes no sense, nil if it does.
func (t *Transaction) read(code int32, record []byte) (o Outcome, malformed error) {
	if t.op != jute.OpMulti {
		return t.readSingle(code, record)
	}
	results, malformed := decodeMulti(record)
	failed := slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case failed >= 0 && failed < len(t.ops):
		return Outcome{refused: t.ops[failed], err: results[failed].Error}, nil
	case code != 0:
		return Failure(codeError(code)), nil
	case malformed == nil && !t.answeredBy(results):
		malformed = fmt.Errorf("%d results of %d operations, or of others", len(results), len(t.ops))
	}
	return Outcome{ops: t.ops, results: results}, malformed
}

// readSingle is read for the request of a single operation.
func (t *Transaction) readSingle(code int32, record []byte) (o Outcome, malformed error) {
	switch {
	case isRefusal(code):
		return Outcome{refused: t.ops[0], err: codeError(code)}, nil
	case code != 0:
		return Failure(codeError(code)), nil
	}
	d := jute.NewDecoder(record)
	r := decodeResult(d, t.op)
	if malformed = d.Err; malformed == nil && !t.answeredBy([]zk.MultiResponse{r}) {
		malformed = fmt.Errorf("a result of another operation than %s", jute.OpName(t.op))
	}
	return Outcome{ops: t.ops, results: []zk.MultiResponse{r}}, malformed
}

// isRefusal reports whether a reply with that error refuses the operation, and not the session or
// all requests. In the reply to a multi, such errors are results of operations.
func isRefusal(code int32) bool {
	switch code {
	case jute.ErrBadArguments, jute.ErrNoNode, jute.ErrNoAuth, jute.ErrBadVersion, jute.ErrNoChildrenForEphemerals,
		jute.ErrNodeExists, jute.ErrNotEmpty, jute.ErrInvalidACL, jute.ErrLocalSession, jute.ErrQuotaExceeded:
		return true
	}
	return false
}

// requestOf returns the request that carries out the operations.
func requestOf(ops []any) (op int32, frame []byte) {
	if len(ops) != 1 || codeOf(ops[0]) == jute.OpCheck { // there is no request that only checks
		return jute.OpMulti, multiFrame(ops)
	}
	if op = codeOf(ops[0]); op == jute.OpCreate {
		op = jute.OpCreate2 // which returns the Stat
	}
	return op, appendOp(make([]byte, wire.Headroom, 256), ops[0])
}

func multiFrame(ops []any) []byte {
	frame := make([]byte, wire.Headroom, max(512, 128*len(ops)))
	for _, op := range ops {
		frame = appendOp(appendOpHeader(frame, codeOf(op), false), op)
	}
	return appendOpHeader(frame, -1, true)
}

// Multi carries out a transaction; see Begin and Transaction.Wait.
func (s *Session) Multi(ctx context.Context, ops ...any) Outcome {
	return s.MultiBy(ctx, s.Start, ops...)
}

// MultiBy is like Multi for a transaction that start sends; see BeginBy.
func (s *Session) MultiBy(ctx context.Context, start func(ops ...any) (*Transaction, error), ops ...any) Outcome {
	t, err := s.BeginBy(ctx, start, ops...)
	if err != nil {
		return Failure(err)
	}
	return t.Wait(ctx)
}

// Done returns a channel that is closed when the transaction has ended.
func (t *Transaction) Done() <-chan struct{} { return t.call.Done() }

// Wait waits for the transaction's end and returns its outcome. The outcome is a failure with
// ContextErr if ctx ends first.
func (t *Transaction) Wait(ctx context.Context) Outcome {
	select {
	case <-t.call.Done():
	case <-ctx.Done():
		select {
		case <-t.call.Done():
		default:
			return Failure(t.s.ContextErr(ctx))
		}
	}
	o := t.Outcome()
	if o.err != nil || t.s.refusals.any.Load() {
		t.s.backOff(ctx, t.op, o.err)
	}
	return o
}

// Outcome returns how a transaction that has ended went. If the reply is malformed, the
// connection is closed.
func (t *Transaction) Outcome() Outcome {
	_, _, err := t.call.Result()
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return Failure(ErrNotSent)
	case err != nil && t.s.IsOver():
		return Failure(ErrSessionOver)
	case err != nil:
		return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))
	case t.malformed != nil: // Z2: it may have been carried out
		err = fmt.Errorf("malformed reply to a transaction: %w", t.malformed)
		t.call.Reject(err)
		return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))
	}
	return t.outcome
}

// answeredBy reports whether results without an error are those of the operations.
func (t *Transaction) answeredBy(rs []zk.MultiResponse) bool {
	if len(rs) != len(t.ops) {
		return false
	}
	for i, op := range t.ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if !strings.HasPrefix(rs[i].String, op.Path) || op.Flags == zk.FlagContainer && rs[i].Stat == nil {
				return false
			}
		case *zk.SetDataRequest:
			if rs[i].Stat == nil {
				return false
			}
		}
	}
	return true
}

// The records are those of org.apache.zookeeper.MultiOperationRecord and
// MultiResponse.

func appendOpHeader(b []byte, op int32, done bool) []byte {
	b = jute.AppendBool(jute.AppendInt32(b, op), done)
	return jute.AppendInt32(b, -1)
}

// codeOf returns the code of an operation.
func codeOf(op any) int32 {
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op.Flags == zk.FlagContainer {
			return jute.OpCreateContainer
		}
		return jute.OpCreate
	case *zk.SetDataRequest:
		return jute.OpSetData
	case *zk.DeleteRequest:
		return jute.OpDelete
	case *zk.CheckVersionRequest:
		return jute.OpCheck
	}
	panic(fmt.Sprintf("no operation of a transaction: %T", op))
}

// appendOp appends an operation's record.
func appendOp(b []byte, op any) []byte {
	switch op := op.(type) {
	case *zk.CreateRequest:
		b = jute.AppendNullableBuffer(jute.AppendString(b, op.Path), op.Data)
		return jute.AppendInt32(jute.AppendACLs(b, op.Acl), op.Flags)
	case *zk.SetDataRequest:
		b = jute.AppendNullableBuffer(jute.AppendString(b, op.Path), op.Data)
		return jute.AppendInt32(b, op.Version)
	case *zk.DeleteRequest:
		return jute.AppendInt32(jute.AppendString(b, op.Path), op.Version)
	case *zk.CheckVersionRequest:
		return jute.AppendInt32(jute.AppendString(b, op.Path), op.Version)
	}
	return b
}

// MultiSize returns how large a request the operations make.
func MultiSize(parts ...[]any) int {
	return len(multiFrame(slices.Concat(parts...))) - 4
}

func decodeMulti(record []byte) ([]zk.MultiResponse, error) {
	if len(record) == 0 {
		return nil, nil
	}
	rs := make([]zk.MultiResponse, 0, 2) // as joins and releases have
	for d := jute.NewDecoder(record); ; {
		op, done := d.Int32(), d.Bool()
		d.Int32()
		if done || d.Err != nil {
			return rs, d.Err
		}
		switch op {
		case -1:
			rs = append(rs, zk.MultiResponse{Error: codeError(d.Int32())})
		case jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpDelete, jute.OpCheck: // create2 is a createContainer's
			rs = append(rs, decodeResult(d, op))
		default:
			return rs, fmt.Errorf("result of operation %d in a transaction", op)
		}
	}
}

// decodeResult decodes the result of an operation that was carried out.
func decodeResult(d *jute.Decoder, op int32) (r zk.MultiResponse) {
	switch op {
	case jute.OpCreate:
		r.String = d.String()
	case jute.OpCreate2, jute.OpCreateContainer:
		r.String, r.Stat = d.String(), decodeStat(d)
	case jute.OpSetData:
		r.Stat = decodeStat(d)
	}
	return r
}

func decodeStat(d *jute.Decoder) *zk.Stat {
	stat := zk.Stat(d.Stat())
	return &stat
}

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

// Stat returns the Stat of the znode to which op, of this transaction, set data, or which op, its only
// operation, created.
func (o Outcome) Stat(op any) *zk.Stat { return o.results[o.index(op)].Stat }

func (o Outcome) index(op any) int { return slices.Index(o.ops, op) }
