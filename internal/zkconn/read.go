package zkconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Get returns a znode's data and its Stat.
func (s *Session) Get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	return s.read(ctx, jute.OpGetData, path).Data()
}

// GetOwn is like Get for the path of a znode that the session has had. If it has none there, the
// account learns that: a deletion whose reply was lost may have told nobody.
func (s *Session) GetOwn(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	return s.readThen(ctx, jute.OpGetData, path, func(call *wire.Call) { // in the order of the replies
		_, stat, err := (&Reading{call: call}).Data()
		if errors.Is(err, zk.ErrNoNode) || err == nil && stat.EphemeralOwner != s.ID() {
			s.account.deleted(path)
		}
	}).Data()
}

// Children returns the names of a znode's children, in no order, and its Stat.
// The names share their memory: keeping one keeps all of them, unless it is
// cloned.
func (s *Session) Children(ctx context.Context, path string) (names []string, stat *zk.Stat, err error) {
	return s.read(ctx, jute.OpGetChildren2, path).Names()
}

// Exists returns a znode's Stat, or zk.ErrNoNode.
func (s *Session) Exists(ctx context.Context, path string) (stat *zk.Stat, err error) {
	return s.read(ctx, jute.OpExists, path).Stat()
}

// GetACL returns a znode's ACL. Servers hide the ids of digests from clients that may not
// change the ACL: the result has "x" in place of each hash then (FinalRequestProcessor).
func (s *Session) GetACL(ctx context.Context, path string) (acl []zk.ACL, stat *zk.Stat, err error) {
	err = s.read(ctx, jute.OpGetACL, path).result(func(d *jute.Decoder) {
		acl = make([]zk.ACL, 0, 1)
		for range d.Count() {
			acl = append(acl, zk.ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
			if d.Err != nil {
				return
			}
		}
		stat = decodeStat(d)
	})
	if err == nil {
		s.cfg.ReadACL(path, acl)
	}
	return acl, stat, err
}

// Sync returns when the server has caught up with its leader.
func (s *Session) Sync(ctx context.Context, path string) error {
	return s.read(ctx, jute.OpSync, path).result(func(d *jute.Decoder) { _ = d.String() })
}

// read sends a read until it is answered, and returns that one. It has the error if there is none.
func (s *Session) read(ctx context.Context, op int32, path string) *Reading {
	return s.readThen(ctx, op, path, nil)
}

// readThen is like read, and calls ended with each Call: see wire.Conn.CallThen.
func (s *Session) readThen(ctx context.Context, op int32, path string, ended func(*wire.Call)) (r *Reading) {
	err := s.untilAnswered(ctx, op, func() (err error) {
		if r, err = s.startReadThen(op, path, ended); err == nil {
			err = s.await(ctx, r.Done())
		}
		if err == nil {
			_, err = r.record()
		}
		return err
	})
	if err != nil {
		return &Reading{err: err}
	}
	return r
}

// untilAnswered calls ask once requests pass, and again for as long as the error is one for which
// Transient is true.
func (s *Session) untilAnswered(ctx context.Context, op int32, ask func() error) error {
	for {
		if err := s.Ready(ctx); err != nil {
			return err
		}
		err := ask()
		if s.IsOver() && Transient(err) {
			return ErrSessionOver
		}
		if !IsContextErr(ctx, err) {
			s.backOff(ctx, op, err)
		}
		if !Transient(err) {
			return err
		}
	}
}

// await waits until done is closed. It returns ContextErr if ctx ends first.
func (s *Session) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return s.ContextErr(ctx)
	}
}

// Reading is a read of a znode under way.
type Reading struct {
	call *wire.Call
	err  error // why there is no answer; call is nil then
}

// StartGet sends a read of a znode's data now, or fails with ErrNotSent. It does
// not block. The server carries it out behind what was sent on this connection
// before.
func (s *Session) StartGet(path string) (*Reading, error) { return s.startRead(jute.OpGetData, path) }

// StartExists and StartChildren are like StartGet, for Stat and Names.
func (s *Session) StartExists(path string) (*Reading, error) { return s.startRead(jute.OpExists, path) }

func (s *Session) StartChildren(path string) (*Reading, error) {
	return s.startRead(jute.OpGetChildren2, path)
}

func (s *Session) startRead(op int32, path string) (*Reading, error) {
	return s.startReadThen(op, path, nil)
}

func (s *Session) startReadThen(op int32, path string, ended func(*wire.Call)) (*Reading, error) {
	frame := readFrame(op, path)
	if ended == nil { // GetOwn, as a departure, is sent whatever its size
		if err := s.killers.check(frame); err != nil {
			return nil, err
		}
	}
	nc, err := s.passing(frame)
	if err != nil {
		return nil, err
	}
	return &Reading{call: nc.CallThen(op, frame, ended)}, nil
}

func readFrame(op int32, path string) []byte {
	frame := jute.AppendString(make([]byte, wire.Headroom, wire.Headroom+5+len(path)), path)
	if op != jute.OpSync && op != jute.OpGetACL {
		frame = append(frame, 0) // no watch
	}
	return frame
}

// Done returns a channel that is closed when the read has ended.
func (r *Reading) Done() <-chan struct{} { return r.call.Done() }

// Data returns the answer. It is valid once Done's channel is closed.
func (r *Reading) Data() (data []byte, stat *zk.Stat, err error) {
	err = r.result(func(d *jute.Decoder) {
		data = d.Buffer()
		stat = decodeStat(d)
	})
	return data, stat, err
}

// Stat is Data for StartExists.
func (r *Reading) Stat() (stat *zk.Stat, err error) {
	err = r.result(func(d *jute.Decoder) { stat = decodeStat(d) })
	return stat, err
}

// Names is Data for StartChildren.
func (r *Reading) Names() (names []string, stat *zk.Stat, err error) {
	err = r.result(func(d *jute.Decoder) {
		names = decodeNames(d)
		stat = decodeStat(d)
	})
	return names, stat, err
}

// record returns the record of the reply.
func (r *Reading) record() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	code, record, err := r.call.Result()
	switch {
	case errors.Is(err, wire.ErrNotSent):
		return nil, ErrNotSent
	case err != nil:
		return nil, fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	}
	return record, codeError(code)
}

func (r *Reading) result(decode func(*jute.Decoder)) error {
	record, err := r.record()
	if err != nil {
		return err
	}
	d := jute.NewDecoder(record)
	decode(d)
	if d.Err != nil {
		return fmt.Errorf("%w: %w", errMalformed, d.Err)
	}
	return nil
}

var errMalformed = errors.New("malformed reply")

func decodeNames(d *jute.Decoder) []string {
	n := d.Count()
	rest := *d
	all := string(rest.Rest()) // one allocation for all names
	names := make([]string, 0, min(n, len(all)/4))
	for range n {
		name := d.Bytes()
		if d.Err != nil {
			return nil
		}
		end := len(all) - d.Len()
		names = append(names, all[end-len(name):end])
	}
	return names
}
