package zkconn

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Requests that are sent together, in one write if they are small, and are answered one by
// one. Unlike the operations of a transaction, each of them succeeds or fails by itself.

// ExistAll is like Exists for several znodes. It does not ask again: errors for which
// Transient is true, and ErrSessionOver, are returned, too.
func (s *Session) ExistAll(ctx context.Context, paths []string) ([]*zk.Stat, []error) {
	frames, stats := make([][]byte, len(paths)), make([]*zk.Stat, len(paths))
	for i, path := range paths {
		frames[i] = readFrame(jute.OpExists, path)
	}
	errs := s.together(ctx, jute.OpExists, frames, func(i int, d *jute.Decoder) { stats[i] = decodeStat(d) })
	return stats, errs
}

// DeleteAll deletes several znodes, each by itself. Like ExistAll, it does not ask again.
func (s *Session) DeleteAll(ctx context.Context, deletes []*zk.DeleteRequest) []error {
	frames := make([][]byte, len(deletes))
	for i, op := range deletes {
		frame := jute.AppendString(make([]byte, wire.Headroom, wire.Headroom+8+len(op.Path)), op.Path)
		frames[i] = jute.AppendInt32(frame, op.Version)
	}
	return s.together(ctx, jute.OpDelete, frames, func(int, *jute.Decoder) {})
}

// together sends one request for each frame as soon as requests pass, and waits for the
// replies. decode reads the reply to the ith.
func (s *Session) together(ctx context.Context, op int32, frames [][]byte, decode func(i int, d *jute.Decoder)) []error {
	errs := make([]error, len(frames))
	if len(frames) == 0 {
		return errs
	}
	nc, err := (*wire.Conn)(nil), s.Ready(ctx)
	if err == nil {
		nc, err = s.passing(frames...)
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	for i, call := range nc.CallAll(op, frames) {
		r := &Reading{call}
		if errs[i] = s.await(ctx, r.Done()); errs[i] == nil {
			errs[i] = r.result(func(d *jute.Decoder) { decode(i, d) })
		}
	}
	return errs
}

// AtATime calls f with 0 to n-1, several at a time, and returns when all have returned.
func AtATime(n int, f func(i int)) {
	var wg sync.WaitGroup
	running := make(chan struct{}, 16)
	for i := range n {
		running <- struct{}{}
		wg.Go(func() {
			defer func() { <-running }()
			f(i)
		})
	}
	wg.Wait()
}
