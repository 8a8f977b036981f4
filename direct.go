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

// children returns the names of a znode's children, in no order. They share
// their memory: who keeps one keeps all, unless it is cloned.
func (s *session) children(ctx context.Context, path string) ([]string, error) {
	for {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
		frame := jute.AppendString(make([]byte, wire.Headroom, wire.Headroom+5+len(path)), path)
		call, err := s.send(jute.OpGetChildren2, append(frame, 0)) // no watch
		if err == nil {
			select {
			case <-call.Done():
			case <-ctx.Done():
				return nil, ended(ctx)
			}
			var names []string
			if names, err = childrenIn(call.Result()); err == nil {
				return names, nil
			}
			if s.isOver() && unsettled(err) {
				return nil, errSessionOver
			}
			s.backOff(ctx, err)
		}
		if !unsettled(err) {
			return nil, err
		}
	}
}

// childrenIn reads the answer to a getChildren2, whose Stat is not looked at.
func childrenIn(code int32, record []byte, err error) ([]string, error) {
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, errNotSent
	case err != nil:
		return nil, fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	case code != 0:
		return nil, codeError(code)
	}
	d := jute.NewDecoder(record)
	n := int(d.Int32())
	all := string(record)
	names := make([]string, 0, min(max(n, 0), len(record)/4))
	for range n {
		name := d.Buffer()
		if d.Err != nil {
			return nil, d.Err
		}
		end := len(all) - d.Len()
		names = append(names, all[end-len(name):end])
	}
	return names, nil
}
