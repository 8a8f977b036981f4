package zkrecipes

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// call2 runs f with the session's Conn and returns when f does: when the
// request has been answered, its connection was lost, or the session is over.
// While disconnected that can take as long as the session lives.
func call2[A, B any](s *session, f func(*zk.Conn) (A, B, error)) (a A, b B, err error) {
	s.mu.Lock()
	if s.cause != nil || s.draining {
		s.mu.Unlock()
		return a, b, errSessionOver
	}
	s.calling.add()
	s.mu.Unlock()
	defer s.calling.finish()
	a, b, err = f(s.conn)
	if unsettled(err) && s.isOver() {
		err = errSessionOver
	}
	switch err {
	case zk.ErrNothing, zk.ErrSessionExpired, zk.ErrSessionMoved:
		// The server is overloaded, or about to close the connection; whoever asks
		// again does so after a while.
		select {
		case <-time.After(s.wire.Timeout() / 50):
		case <-s.over:
		}
	}
	return a, b, err
}

// await2 is call2 for a caller who waits no longer than ctx. The call itself is
// seen to its end in the background.
func await2[A, B any](ctx context.Context, s *session, f func(*zk.Conn) (A, B, error)) (A, B, error) {
	type result struct {
		a   A
		b   B
		err error
	}
	if err := s.ready(ctx); err != nil {
		var none result
		return none.a, none.b, err
	}
	if ctx.Done() == nil {
		return call2(s, f)
	}
	ch := make(chan result, 1)
	s.c.tasks.start(func() {
		a, b, err := call2(s, f)
		ch <- result{a, b, err}
	})
	select {
	case r := <-ch:
		return r.a, r.b, r.err
	case <-ctx.Done():
		var r result
		return r.a, r.b, ended(ctx)
	}
}

// read repeats a read until it is answered, ctx ends or the session does.
func read[A any](ctx context.Context, s *session, f func(*zk.Conn) (A, *zk.Stat, error)) (A, *zk.Stat, error) {
	for {
		a, stat, err := await2(ctx, s, f)
		if !unsettled(err) {
			return a, stat, err
		}
	}
}

// sync returns when the server has caught up with its leader.
func (s *session) sync(ctx context.Context, path string) error {
	_, _, err := read(ctx, s, func(conn *zk.Conn) (string, *zk.Stat, error) {
		path, err := conn.Sync(path)
		return path, nil, err
	})
	return err
}

// multi runs the operations as one transaction. failed is the index of the
// first that did, -1 where the request failed as a whole.
func (s *session) multi(ops ...any) (rs []zk.MultiResponse, failed int, err error) {
	if n := multiSize(ops); n > jute.MaxFrame {
		return nil, -1, tooLarge(n)
	}
	rs, _, err = call2(s, func(conn *zk.Conn) ([]zk.MultiResponse, struct{}, error) {
		rs, err := conn.Multi(ops...)
		return rs, struct{}{}, err
	})
	failed = -1
	for i, r := range rs {
		if r.Error != nil {
			return rs, i, r.Error
		}
	}
	return rs, failed, err
}

func tooLarge(n int) error {
	return fmt.Errorf("request of %d bytes: servers accept %d (jute.maxbuffer)", n, jute.MaxFrame)
}

// multiSize returns the size of the frame body that go-zookeeper makes of ops.
func multiSize(ops []any) int {
	const header = 9 // of each operation, and one at the end
	n := 8 + header
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			n += header + createSize(op.Path, op.Data, op.Acl)
		case *zk.SetDataRequest:
			n += header + 4 + len(op.Path) + 4 + len(op.Data) + 4
		case *zk.DeleteRequest:
			n += header + 4 + len(op.Path) + 4
		case *zk.CheckVersionRequest:
			n += header + 4 + len(op.Path) + 4
		}
	}
	return n
}

func createSize(path string, data []byte, acl []zk.ACL) int {
	n := 4 + len(path) + 4 + len(data) + 4 + 4
	for _, a := range acl {
		n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
	}
	return n
}
