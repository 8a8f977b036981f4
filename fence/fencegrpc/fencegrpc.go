// Package fencegrpc carries fencing tokens over gRPC, for package fence. Interceptors of the client
// write the tokens of the holder in a call's context, see fence.NewContext, to its metadata. Those
// of the server ask a guard.
//
// A server refuses a call with codes.FailedPrecondition if a later holder came first, or if it has
// no token; with codes.InvalidArgument if the token is malformed; and with codes.Unavailable if the
// guard cannot know. [Error] tells them apart.
package fencegrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zkrecipes/zkrecipes/fence"
)

// Key is the key of a call's metadata whose values are those of fence.Header.
const Key = "zkrecipes-fence"

// Options configure the interceptors of a server. nil is the same as the zero value.
type Options struct {
	// Optional lets calls through that have no Key. Nothing fences them.
	Optional bool
	// Names returns the names of the fences that a call of that method must have a token for. nil:
	// whichever it has. See fence.HandlerOptions.
	Names func(ctx context.Context, fullMethod string) []string
}

// UnaryClientInterceptor returns an interceptor that writes the tokens of the holder in the call's
// context to its metadata. It sends a call without a holder as it is, and fails with
// fence.ErrNoToken for a holder that has no fencing token.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := outgoing(ctx)
		if err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// StreamClientInterceptor is like UnaryClientInterceptor, for streams.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, err := outgoing(ctx)
		if err != nil {
			return nil, err
		}
		return open(ctx, desc, cc, method, opts...)
	}
}

func outgoing(ctx context.Context) (context.Context, error) {
	h, ok := fence.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	value, err := fence.Format(h)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, Key, value), nil
}

// UnaryServerInterceptor returns an interceptor that asks the guard for each call, and calls the
// handler for those that it admits. The handler's context has the tokens, for fence.FromContext,
// and ends early if the guard says so. See fence.Handler for what each guard promises.
//
// If the handler returns an error of package fence, such as that of fence.SQL.Do, the client gets
// the same status as from the guard, and codes.Unknown for fence.ErrUncertain.
func UnaryServerInterceptor(g fence.Guard, opts *Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		tokens, err := opts.incoming(ctx, info.FullMethod)
		if err != nil {
			return nil, refuse(err)
		}
		if tokens == nil {
			return handle(ctx, req)
		}
		work, done, err := g.Admit(ctx, tokens)
		if err != nil {
			return nil, refuse(err)
		}
		defer done()
		reply, err := handle(fence.NewContext(work, tokens), req)
		return reply, ofHandler(err)
	}
}

// incoming returns the tokens of the call, nil if it has none and needs none.
func (o *Options) incoming(ctx context.Context, method string) (fence.Tokens, error) {
	if o == nil {
		o = &Options{}
	}
	values := metadata.ValueFromIncomingContext(ctx, Key)
	if len(values) == 0 {
		if o.Optional {
			return nil, nil
		}
		return nil, fmt.Errorf("fence: %w: no %s in the metadata", fence.ErrNoToken, Key)
	}
	tokens, err := fence.Parse(strings.Join(values, ","))
	if err == nil && o.Names != nil {
		err = tokens.Require(o.Names(ctx, method)...)
	}
	return tokens, err
}

// reasons are the errors that Error finds in a status again, by the reason in its ErrorInfo.
var reasons = []struct {
	err    error
	code   codes.Code
	reason string
}{
	{fence.ErrFenced, codes.FailedPrecondition, "FENCED"},
	{fence.ErrMalformed, codes.InvalidArgument, "MALFORMED"},
	{fence.ErrNoToken, codes.FailedPrecondition, "NO_TOKEN"},
	{fence.ErrUnknown, codes.Unavailable, "UNKNOWN"},
	{fence.ErrUncertain, codes.Unknown, "UNCERTAIN"},
}

const domain = "github.com/zkrecipes/zkrecipes/fence"

// refuse returns the status of an error of a guard.
func refuse(err error) error {
	if s := known(err); s != nil {
		return s
	}
	return status.Error(codes.Unavailable, "fence: the guard cannot check the token")
}

// ofHandler returns the status of an error of package fence, and any other error as it is.
func ofHandler(err error) error {
	if s := known(err); s != nil {
		return s
	}
	return err
}

func known(err error) error {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			text := err.Error()
			if r.code == codes.Unavailable || r.code == codes.Unknown {
				text = r.err.Error() // the whole text may have that of a database
			}
			s := status.New(r.code, text)
			if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: r.reason, Domain: domain}); err == nil {
				s = detailed
			}
			return s.Err()
		}
	}
	return nil
}

// Error returns an error that is fence.ErrFenced, fence.ErrMalformed, fence.ErrNoToken or
// fence.ErrUnknown, and err, if err is the status of a call that a guard has refused. It is
// fence.ErrUncertain if the handler has returned that: the write may have been done. Otherwise it
// returns err.
func Error(err error) error {
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return err
	}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		for _, r := range reasons {
			if r.reason == info.GetReason() {
				return fmt.Errorf("%w: %w", r.err, err)
			}
		}
	}
	return err
}
