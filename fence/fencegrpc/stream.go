package fencegrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/zkrecipes/zkrecipes/fence"
)

// StreamServerInterceptor is like UnaryServerInterceptor, for streams. It asks the guard before the
// handler begins, and again for each message that the client sends. While the handler waits for a
// message, nothing is admitted, so an idle stream does not keep a later holder waiting. Once a
// later holder has come, the stream's context ends, and its RecvMsg and SendMsg return the refusal: at
// once, or at the client's next message if the handler waits for one.
func StreamServerInterceptor(g fence.Guard, opts *Options) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		tokens, err := opts.incoming(ss.Context(), info.FullMethod)
		if err != nil {
			return refuse(err)
		}
		if tokens == nil {
			return handle(srv, ss)
		}
		ctx, end := context.WithCancelCause(ss.Context())
		defer end(nil)
		s := &fencedStream{ServerStream: ss, guard: g, tokens: tokens, ctx: fence.NewContext(ctx, tokens), end: end}
		if err := s.admit(); err != nil {
			return err
		}
		defer s.finish()
		return ofHandler(handle(srv, s))
	}
}

// fencedStream is a stream that is admitted except while it waits for a message.
type fencedStream struct {
	grpc.ServerStream
	guard  fence.Guard
	tokens fence.Tokens
	ctx    context.Context // of the handler
	end    context.CancelCauseFunc

	mu   sync.Mutex
	done func() // nil: not admitted
	over bool   // the handler has returned
}

func (s *fencedStream) Context() context.Context { return s.ctx }

func (s *fencedStream) admit() error {
	work, done, err := s.guard.Admit(s.ctx, s.tokens)
	if err != nil {
		s.end(err)
		return refuse(err)
	}
	stop := context.AfterFunc(work, func() { s.end(context.Cause(work)) })
	s.mu.Lock()
	s.done = func() {
		stop()
		done()
	}
	over := s.over
	s.mu.Unlock()
	if over { // nobody else would call done, and later holders would wait for ever
		s.pause()
	}
	return nil
}

// finish ends what is admitted, now and later: a handler may leave a goroutine behind in RecvMsg.
func (s *fencedStream) finish() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.pause()
}

func (s *fencedStream) pause() {
	s.mu.Lock()
	done := s.done
	s.done = nil
	s.mu.Unlock()
	if done != nil {
		done()
	}
}

func (s *fencedStream) RecvMsg(m any) error {
	s.pause()
	err := s.ServerStream.RecvMsg(m)
	// After the last message, and after an error, too: the handler ends its work then.
	if refused := s.admit(); refused != nil && (err == nil || errors.Is(err, io.EOF)) {
		return refused
	}
	return err
}

func (s *fencedStream) SendMsg(m any) error {
	if s.ctx.Err() != nil {
		if err := known(context.Cause(s.ctx)); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}
