package fencegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/fencegrpc"
)

// service calls act for each call and for each message of a stream, and answers with one message
// each.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	act func(ctx context.Context) error
}

func (s *service) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, s.act(ctx)
}

func (s *service) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return s.act(stream.Context())
		}
		if err != nil {
			return err
		}
		if err := s.act(stream.Context()); err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serve serves behind the guard, and returns a client.
func serve(t *testing.T, guard fence.Guard, opts *fencegrpc.Options, act func(context.Context) error) testgrpc.TestServiceClient {
	return serveBy(t, guard, opts, &service{act: act})
}

func serveBy(t *testing.T, guard fence.Guard, opts *fencegrpc.Options, service testgrpc.TestServiceServer) testgrpc.TestServiceClient {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(fencegrpc.UnaryServerInterceptor(guard, opts)),
		grpc.StreamInterceptor(fencegrpc.StreamServerInterceptor(guard, opts)))
	testgrpc.RegisterTestServiceServer(srv, service)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		require.NoError(t, <-ended)
	})
	conn, err := grpc.NewClient(l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(fencegrpc.UnaryClientInterceptor()),
		grpc.WithStreamInterceptor(fencegrpc.StreamClientInterceptor()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return testgrpc.NewTestServiceClient(conn)
}

// told returns a Memory that knows the lowest token of the lock of the tests.
func told() *fence.Memory {
	m := fence.NewMemory(nil)
	m.Raise("/locks/orders", 1)
	return m
}

func under(t *testing.T, token int64) context.Context {
	return fence.NewContext(t.Context(), fence.Tokens{"/locks/orders": token})
}

func nothing(context.Context) error { return nil }

func TestAnEarlierHoldersCallIsRefused(t *testing.T) {
	var seen []map[string]int64
	client := serve(t, told(), nil, func(ctx context.Context) error {
		h, _ := fence.FromContext(ctx)
		seen = append(seen, h.Fences())
		return nil
	})
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.NoError(t, err)
	_, err = client.EmptyCall(under(t, 256), &testgrpc.Empty{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrFenced)
	require.Equal(t, codes.FailedPrecondition, status.Code(fencegrpc.Error(err)))
	require.Equal(t, []map[string]int64{{"/locks/orders": 512}}, seen)
}

func TestACallWithoutATokenIsRefusedUnlessItIsOptional(t *testing.T) {
	client := serve(t, told(), nil, nothing)
	_, err := client.EmptyCall(t.Context(), &testgrpc.Empty{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrNoToken)
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrNoToken)

	client = serve(t, told(), &fencegrpc.Options{Optional: true}, nothing)
	_, err = client.EmptyCall(t.Context(), &testgrpc.Empty{})
	require.NoError(t, err)
	stream, err = client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestACallNeedsATokenOfTheFencesThatItsMethodHas(t *testing.T) {
	client := serve(t, told(), &fencegrpc.Options{Names: func(_ context.Context, method string) []string {
		return []string{"/locks" + method}
	}}, nothing)
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrNoToken)
	require.ErrorContains(t, err, `"/locks/grpc.testing.TestService/EmptyCall"`)
}

func TestAMalformedTokenIsAnInvalidArgument(t *testing.T) {
	client := serve(t, told(), &fencegrpc.Options{Optional: true}, nothing)
	_, err := client.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), fencegrpc.Key, "512"), &testgrpc.Empty{})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrMalformed)
}

func TestAGuardThatCannotKnowIsUnavailable(t *testing.T) {
	client := serve(t, fence.NewMemory(nil), nil, nothing)
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrUnknown)

	client = serve(t, failing{}, nil, nothing)
	_, err = client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NotContains(t, err.Error(), "alice")
	require.Equal(t, err, fencegrpc.Error(err))
}

type failing struct{}

func (failing) Admit(context.Context, fence.Holder) (context.Context, func(), error) {
	return nil, nil, errors.New("password authentication failed for user alice")
}

func TestTheErrorOfAHandlersOwnTransactionIsARefusal(t *testing.T) {
	client := serve(t, told(), nil, func(context.Context) error { return errors.Join(errors.New("write"), fence.ErrFenced) })
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrFenced)

	client = serve(t, told(), nil, func(context.Context) error { return status.Error(codes.NotFound, "no account") })
	_, err = client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, err, fencegrpc.Error(err))
}

func TestAHolderWithoutATokenSendsNothing(t *testing.T) {
	client := serve(t, told(), &fencegrpc.Options{Optional: true}, func(context.Context) error { return errors.New("called") })
	ctx := fence.NewContext(t.Context(), fence.Tokens{})
	_, err := client.EmptyCall(ctx, &testgrpc.Empty{})
	require.ErrorIs(t, err, fence.ErrNoToken)
	_, err = client.FullDuplexCall(ctx)
	require.ErrorIs(t, err, fence.ErrNoToken)
}

// A stream that waits for its client keeps nobody waiting, and its next message is refused.
func TestAStreamOfAnEarlierHolderIsRefusedAtItsNextMessage(t *testing.T) {
	acted := make(chan int64, 10)
	client := serve(t, told(), nil, func(ctx context.Context) error {
		h, _ := fence.FromContext(ctx)
		acted <- h.Fences()["/locks/orders"]
		return nil
	})
	stream, err := client.FullDuplexCall(under(t, 256))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, stream.Send(&testgrpc.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		require.NoError(t, err)
		require.EqualValues(t, 256, <-acted)
	}
	_, err = client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.NoError(t, err)
	require.EqualValues(t, 512, <-acted)
	require.NoError(t, stream.Send(&testgrpc.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrFenced)
	require.Empty(t, acted)
}

// What a handler does at the end of a stream is fenced, too.
func TestTheEndOfAnEarlierHoldersStreamIsRefused(t *testing.T) {
	client := serve(t, told(), nil, nothing)
	stream, err := client.FullDuplexCall(under(t, 256))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&testgrpc.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrFenced)
}

// A handler that works on a message ends early, and the later holder waits for it.
func TestTheWorkOfAnEarlierHoldersStreamEnds(t *testing.T) {
	working := make(chan struct{})
	client := serve(t, told(), nil, func(ctx context.Context) error {
		if h, _ := fence.FromContext(ctx); h.Fences()["/locks/orders"] == 512 {
			return nil
		}
		close(working)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	stream, err := client.FullDuplexCall(under(t, 256))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&testgrpc.StreamingOutputCallRequest{}))
	<-working
	_, err = client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrFenced)
}

// leaver returns from its streams while a goroutine still receives, as one does that answers for as
// long as it wants to.
type leaver struct {
	service
	left chan error
}

func (s *leaver) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	go func() {
		_, err := stream.Recv()
		s.left <- err
	}()
	return nil
}

func TestAHandlerThatReturnsWhileItReceivesKeepsNoLaterHolderWaiting(t *testing.T) {
	s := &leaver{service{act: nothing}, make(chan error)}
	client := serveBy(t, told(), nil, s)
	stream, err := client.FullDuplexCall(under(t, 256))
	require.NoError(t, err)
	require.Error(t, <-s.left)
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	ctx, cancel := context.WithTimeout(under(t, 512), time.Minute)
	defer cancel()
	_, err = client.EmptyCall(ctx, &testgrpc.Empty{})
	require.NoError(t, err)
}

// The write may have been done, so the client must not take it for refused, nor repeat it.
func TestAnUncertainWriteIsNoRefusal(t *testing.T) {
	client := serve(t, told(), nil, func(context.Context) error {
		return fmt.Errorf("fence: commit: %w: alice", fence.ErrUncertain)
	})
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.Equal(t, codes.Unknown, status.Code(err))
	require.NotContains(t, err.Error(), "alice")
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrUncertain)
}

// A Memory asks a function of the service's own, which may ask a database.
func TestNoErrorOfTheServiceIsInARefusal(t *testing.T) {
	client := serve(t, fence.NewMemory(func(context.Context, string) (int64, error) {
		return 0, errors.New("password authentication failed for user alice")
	}), nil, nothing)
	_, err := client.EmptyCall(under(t, 512), &testgrpc.Empty{})
	require.ErrorIs(t, fencegrpc.Error(err), fence.ErrUnknown)
	require.NotContains(t, err.Error(), "alice")
}
