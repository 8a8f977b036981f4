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

// Transaction is a multi request under way. Its operations are
// *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest. Like reads, transactions are sent directly.
type Transaction struct {
	s    *Session
	ops  []any
	call *wire.Call

	results   []zk.MultiResponse // set when it has ended, if there was a reply
	malformed error              // why the reply makes no sense
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
		return s.start(ops, 0, func(nc *wire.Conn, frame []byte, ended func(*wire.Call)) *wire.Call {
			get, multi := nc.CallBoth(jute.OpGetData, readFrame(jute.OpGetData, path), jute.OpMulti, frame, func(_, multi *wire.Call) { ended(multi) })
			r = &Reading{get}
			return multi
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
func (s *Session) Start(ops ...any) (*Transaction, error) { return s.start(ops, 0, sendMulti) }

// StartSpare is like Start for a transaction without which the caller cannot let go of what
// the session holds: there is some room for it when there is none for others.
func (s *Session) StartSpare(ops ...any) (*Transaction, error) {
	return s.start(ops, s.account.bound/18, sendMulti) // the bound is 18/20 of the servers' limit
}

func sendMulti(nc *wire.Conn, frame []byte, ended func(*wire.Call)) *wire.Call {
	return nc.CallThen(jute.OpMulti, frame, ended)
}

func (s *Session) start(ops []any, spare int, send func(*wire.Conn, []byte, func(*wire.Call)) *wire.Call) (*Transaction, error) {
	frame := multiFrame(ops)
	if !letsGo(ops) {
		if err := s.killers.check(frame); err != nil {
			return nil, err
		}
	}
	nc, err := s.passing(frame)
	if err != nil {
		return nil, err
	}
	if err := s.checkWeight(s.account.begin(ops, spare)); err != nil {
		return nil, err
	}
	t := &Transaction{s: s, ops: ops}
	t.call = send(nc, frame, t.ended)
	return t, nil
}

// ended decodes the reply, and settles the account whether or not somebody waits.
func (t *Transaction) ended(call *wire.Call) {
	code, record, err := call.Result()
	if err != nil {
		t.s.account.ended(t.ops, nil, !errors.Is(err, wire.ErrNotSent))
		return
	}
	t.results, t.malformed = decodeMulti(record)
	failed := slices.IndexFunc(t.results, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case failed >= 0 && failed < len(t.ops):
		err = t.results[failed].Error
	case code != 0:
		err = codeError(code)
	case t.malformed == nil && !t.answeredBy(t.results):
		t.malformed = fmt.Errorf("%d results of %d operations, or of others", len(t.results), len(t.ops))
	}
	switch {
	case err == nil && t.malformed == nil:
		t.s.account.ended(t.ops, t.results, false)
	case err == nil || Transient(err):
		t.s.account.ended(t.ops, nil, true)
	default:
		t.s.account.ended(t.ops, nil, false)
		if failed == 0 && errors.Is(err, zk.ErrNoNode) {
			t.s.account.missed(t.ops[0])
		}
	}
}

func multiFrame(ops []any) []byte {
	frame := make([]byte, wire.Headroom, max(512, 128*len(ops)))
	for _, op := range ops {
		frame = appendOp(frame, op)
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
	t.s.backOff(ctx, jute.OpMulti, o.err)
	return o
}

// Outcome returns how a transaction that has ended went. If the reply is malformed, the
// connection is closed.
func (t *Transaction) Outcome() Outcome {
	code, _, err := t.call.Result()
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return Failure(ErrNotSent)
	case err != nil && t.s.IsOver():
		return Failure(ErrSessionOver)
	case err != nil:
		return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))
	}
	for i, r := range t.results {
		if r.Error == nil {
			continue
		}
		if i >= len(t.ops) {
			break
		}
		return Outcome{refused: t.ops[i], err: r.Error}
	}
	if code != 0 {
		return Failure(codeError(code))
	}
	if t.malformed != nil { // it may have been carried out, as if the reply had been lost
		err = fmt.Errorf("malformed reply to a transaction: %w", t.malformed)
		t.call.Reject(err)
		return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))
	}
	return Outcome{ops: t.ops, results: t.results}
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

func appendOp(b []byte, op any) []byte {
	switch op := op.(type) {
	case *zk.CreateRequest:
		code := jute.OpCreate
		if op.Flags == zk.FlagContainer {
			code = jute.OpCreateContainer
		}
		return appendCreate(appendOpHeader(b, code, false), op)
	case *zk.SetDataRequest:
		b = appendOpHeader(b, jute.OpSetData, false)
		b = appendData(jute.AppendString(b, op.Path), op.Data)
		return jute.AppendInt32(b, op.Version)
	case *zk.DeleteRequest:
		b = appendOpHeader(b, jute.OpDelete, false)
		return jute.AppendInt32(jute.AppendString(b, op.Path), op.Version)
	case *zk.CheckVersionRequest:
		b = appendOpHeader(b, jute.OpCheck, false)
		return jute.AppendInt32(jute.AppendString(b, op.Path), op.Version)
	}
	panic(fmt.Sprintf("no operation of a transaction: %T", op))
}

func appendCreate(b []byte, op *zk.CreateRequest) []byte {
	b = appendData(jute.AppendString(b, op.Path), op.Data)
	return jute.AppendInt32(appendACL(b, op.Acl), op.Flags)
}

func appendACL(b []byte, acl []zk.ACL) []byte {
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, a := range acl {
		b = jute.AppendInt32(b, a.Perms)
		b = jute.AppendString(jute.AppendString(b, a.Scheme), a.ID)
	}
	return b
}

// MultiSize returns how large a request the operations make.
func MultiSize(parts ...[]any) int {
	return len(multiFrame(slices.Concat(parts...))) - 4
}

// appendData appends a buffer; nil stays null, as in go-zookeeper.
func appendData(b, data []byte) []byte {
	if data == nil {
		return jute.AppendInt32(b, -1)
	}
	return jute.AppendBuffer(b, data)
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
		var r zk.MultiResponse
		switch op {
		case -1:
			r.Error = codeError(d.Int32())
		case jute.OpCreate:
			r.String = d.String()
		case jute.OpCreate2: // of a createContainer
			r.String, r.Stat = d.String(), decodeStat(d)
		case jute.OpSetData:
			r.Stat = decodeStat(d)
		case jute.OpDelete, jute.OpCheck:
		default:
			return rs, fmt.Errorf("result of operation %d in a transaction", op)
		}
		rs = append(rs, r)
	}
}
