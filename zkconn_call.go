package zkrecipes

import (
	"context"
	"fmt"

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
	s.backOff(context.Background(), err)
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

func tooLarge(n int) error {
	return fmt.Errorf("request of %d bytes: servers accept %d (jute.maxbuffer)", n, jute.MaxFrame)
}

// createSize returns the size of the record that go-zookeeper makes of a create.
func createSize(path string, data []byte, acl []zk.ACL) int {
	n := 4 + len(path) + 4 + len(data) + 4 + 4
	for _, a := range acl {
		n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
	}
	return n
}
