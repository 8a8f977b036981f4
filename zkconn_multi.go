package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Transactions do not go through go-zookeeper. What is queued there cannot be
// taken back, so whoever may have to leave would need a goroutine for each.

// transaction is a multi request under way.
type transaction struct {
	s    *session
	ops  []any
	call *wire.Call
}

// begin sends the operations as soon as requests pass. It blocks for that, not
// for the answer.
func (s *session) begin(ctx context.Context, ops ...any) (*transaction, error) {
	for {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
		if t, err := s.start(ops...); !errors.Is(err, errNotSent) {
			return t, err
		}
	}
}

// start sends the operations now, or fails with errNotSent. It does not block.
func (s *session) start(ops ...any) (*transaction, error) {
	frame := make([]byte, wire.Headroom, 512)
	for _, op := range ops {
		frame = appendOp(frame, op)
	}
	call, err := s.send(jute.OpMulti, appendOpHeader(frame, -1, true))
	if err != nil {
		return nil, err
	}
	return &transaction{s, ops, call}, nil
}

// errNotSent: the connection was lost before the request was written to it.
var errNotSent = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, wire.ErrNotSent)

// wait waits for the transaction's end and returns what result does, or, where
// it has none yet, that ctx has ended.
func (t *transaction) wait(ctx context.Context) (rs []zk.MultiResponse, failed int, err error) {
	select {
	case <-t.call.Done():
	case <-ctx.Done():
		select {
		case <-t.call.Done():
		default:
			return nil, -1, ended(ctx)
		}
	}
	rs, failed, err = t.result()
	t.s.backOff(ctx, err)
	return rs, failed, err
}

// result returns how a transaction that has ended went. failed is the index of
// the first operation that did, -1 where the request failed as a whole.
func (t *transaction) result() (rs []zk.MultiResponse, failed int, err error) {
	code, record, err := t.call.Result()
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, -1, errNotSent
	case err != nil && t.s.isOver():
		return nil, -1, errSessionOver
	case err != nil:
		return nil, -1, fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	}
	rs, err = decodeMulti(record)
	for i, r := range rs {
		if r.Error != nil {
			return rs, i, r.Error
		}
	}
	switch {
	case code != 0:
		err = codeError(code)
	case err == nil && !t.answered(rs):
		err = fmt.Errorf("%d results of %d operations in a transaction, or of others", len(rs), len(t.ops))
	}
	return rs, -1, err
}

// answered reports whether results without an error are those of the operations.
func (t *transaction) answered(rs []zk.MultiResponse) bool {
	if len(rs) != len(t.ops) {
		return false
	}
	for i, op := range t.ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if !strings.HasPrefix(rs[i].String, op.Path) {
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

// multi runs the operations as one transaction; see begin and result.
func (s *session) multi(ctx context.Context, ops ...any) (rs []zk.MultiResponse, failed int, err error) {
	t, err := s.begin(ctx, ops...)
	if err != nil {
		return nil, -1, err
	}
	return t.wait(ctx)
}

// backOff waits a moment where the server is overloaded, or about to close the
// connection: whoever asks again does so after a while.
func (s *session) backOff(ctx context.Context, err error) {
	switch err {
	case zk.ErrNothing, zk.ErrSessionExpired, zk.ErrSessionMoved:
		select {
		case <-time.After(s.wire.Timeout() / 50):
		case <-s.over:
		case <-ctx.Done():
		}
	}
}

// The records, as org.apache.zookeeper.MultiOperationRecord and MultiResponse
// write them.

func appendOpHeader(b []byte, op int32, done bool) []byte {
	b = jute.AppendInt32(b, op)
	if done {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return jute.AppendInt32(b, -1)
}

func appendOp(b []byte, op any) []byte {
	switch op := op.(type) {
	case *zk.CreateRequest:
		b = appendOpHeader(b, jute.OpCreate, false)
		b = appendData(jute.AppendString(b, op.Path), op.Data)
		b = jute.AppendInt32(b, int32(len(op.Acl)))
		for _, a := range op.Acl {
			b = jute.AppendInt32(b, a.Perms)
			b = jute.AppendString(jute.AppendString(b, a.Scheme), a.ID)
		}
		return jute.AppendInt32(b, op.Flags)
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

// frameSize returns how large a request the operations make.
func frameSize(parts ...[]any) int {
	frame := make([]byte, wire.Headroom)
	for _, op := range slices.Concat(parts...) {
		frame = appendOp(frame, op)
	}
	return len(appendOpHeader(frame, -1, true)) - 4
}

// appendData appends a buffer; nil stays null, as go-zookeeper has it.
func appendData(b, data []byte) []byte {
	if data == nil {
		return jute.AppendInt32(b, -1)
	}
	return jute.AppendBuffer(b, data)
}

func decodeMulti(record []byte) ([]zk.MultiResponse, error) {
	var rs []zk.MultiResponse
	for d := jute.NewDecoder(record); len(record) > 0; {
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
		case jute.OpSetData:
			r.Stat = decodeStat(d)
		case jute.OpDelete, jute.OpCheck:
		default:
			return rs, fmt.Errorf("result of operation %d in a transaction", op)
		}
		rs = append(rs, r)
	}
	return nil, nil
}

func decodeStat(d *jute.Decoder) *zk.Stat {
	return &zk.Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(), Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(), DataLength: d.Int32(), NumChildren: d.Int32(), Pzxid: d.Int64(),
	}
}

// codeError returns go-zookeeper's error for a server's code, nil for 0.
func codeError(code int32) error {
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return fmt.Errorf("error %d of the server (KeeperException.Code)", code)
}

var codeErrors = map[int32]error{
	0: nil,

	jute.ErrQuotaExceeded: fmt.Errorf("quota exceeded (error %d of the server)", jute.ErrQuotaExceeded),

	// As internal/wire shows them to go-zookeeper.
	jute.ErrConnectionLoss:   zk.ErrNothing,
	jute.ErrOperationTimeout: zk.ErrNothing,
	jute.ErrThrottled:        zk.ErrNothing,

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
