package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Requests that do not go through go-zookeeper: what is queued there cannot be
// taken back, so whoever may have to leave would need a goroutine for each.
// Those that set watches do, since it arms them again after a reconnect.

// send sends a request now, or fails with errNotSent. It does not block. frame
// is wire.Headroom bytes and the record.
func (s *session) send(op int32, frame []byte) (*wire.Call, error) {
	if n := len(frame) - 4; n > jute.MaxFrame {
		return nil, tooLarge(n)
	}
	s.mu.Lock()
	nc, up, over := s.nc, s.up, s.cause != nil || s.draining
	s.mu.Unlock()
	switch {
	case over:
		return nil, errSessionOver
	case !up || nc == nil:
		return nil, errNotSent
	}
	return nc.Call(op, frame), nil
}

// children returns the names of a znode's children, in no order, and its Stat.
// They share their memory: who keeps one keeps all, unless it is cloned.
func (s *session) children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return ask(ctx, s, jute.OpGetChildren2, path, childrenIn)
}

// get returns a znode's data and its Stat.
func (s *session) get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return ask(ctx, s, jute.OpGetData, path, dataIn)
}

// ask sends a read, without a watch, until it is answered. decode reads the
// answer.
func ask[A any](ctx context.Context, s *session, op int32, path string, decode func(int32, []byte, error) (A, *zk.Stat, error)) (none A, _ *zk.Stat, _ error) {
	for {
		if err := s.ready(ctx); err != nil {
			return none, nil, err
		}
		call, err := s.sendRead(op, path)
		if err == nil {
			select {
			case <-call.Done():
			case <-ctx.Done():
				return none, nil, ended(ctx)
			}
			var a A
			var stat *zk.Stat
			if a, stat, err = decode(call.Result()); err == nil {
				return a, stat, nil
			}
			if s.isOver() && unsettled(err) {
				return none, nil, errSessionOver
			}
			s.backOff(ctx, err)
		}
		if !unsettled(err) {
			return none, nil, err
		}
	}
}

// sendRead sends a read of a path, without a watch; see send.
func (s *session) sendRead(op int32, path string) (*wire.Call, error) {
	frame := jute.AppendString(make([]byte, wire.Headroom, wire.Headroom+5+len(path)), path)
	return s.send(op, append(frame, 0))
}

// answerIn returns the record of an answer without an error.
func answerIn(code int32, record []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, errNotSent
	case err != nil:
		return nil, fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	}
	return record, codeError(code)
}

// dataIn reads the answer to a getData.
func dataIn(code int32, record []byte, err error) ([]byte, *zk.Stat, error) {
	record, err = answerIn(code, record, err)
	if err != nil {
		return nil, nil, err
	}
	d := jute.NewDecoder(record)
	data := d.Buffer()
	return data, decodeStat(d), d.Err
}

// childrenIn reads the answer to a getChildren2.
func childrenIn(code int32, record []byte, err error) ([]string, *zk.Stat, error) {
	record, err = answerIn(code, record, err)
	if err != nil {
		return nil, nil, err
	}
	d := jute.NewDecoder(record)
	n := int(d.Int32())
	all := string(record)
	names := make([]string, 0, min(max(n, 0), len(record)/4))
	for range n {
		name := d.Buffer()
		if d.Err != nil {
			return nil, nil, d.Err
		}
		end := len(all) - d.Len()
		names = append(names, all[end-len(name):end])
	}
	stat := decodeStat(d)
	return names, stat, d.Err
}
