// Package tuning lets tests outside the root package change sizes that are
// constants for users. The sizes are values of the context with which a Client
// connects.
package tuning

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// InMemory is the address of each server of zktest that runs in memory, in a network reserved for
// documentation (RFC 5737). A Client without the server's dialer refuses it.
const InMemory = "192.0.2.1:2181"

type (
	segmentKey    struct{}
	lastNumberKey struct{}
	longLineKey   struct{}
	idleLineKey   struct{}
	networkKey    struct{}
)

// WithSegment makes the queues of a Client seal a segment after n creates.
func WithSegment(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, segmentKey{}, n)
}

// Segment returns the size set by WithSegment, or 0.
func Segment(ctx context.Context) int64 {
	return valueOr(ctx, segmentKey{}, int64(0))
}

// WithLastNumber makes n the last number that a Client grants a place in a line.
func WithLastNumber(ctx context.Context, n int32) context.Context {
	return context.WithValue(ctx, lastNumberKey{}, n)
}

// LastNumber returns the number set by WithLastNumber, or otherwise.
func LastNumber(ctx context.Context, otherwise int32) int32 {
	return valueOr(ctx, lastNumberKey{}, otherwise)
}

// WithLongLine makes a Client take a line of more than n places for long.
func WithLongLine(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, longLineKey{}, n)
}

// LongLine returns the number set by WithLongLine, or otherwise.
func LongLine(ctx context.Context, otherwise int) int {
	return valueOr(ctx, longLineKey{}, otherwise)
}

// WithIdleLine makes a Client delete lines that it has not used for d.
func WithIdleLine(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, idleLineKey{}, d)
}

// IdleLine returns the time set by WithIdleLine, or otherwise.
func IdleLine(ctx context.Context, otherwise time.Duration) time.Duration {
	return valueOr(ctx, idleLineKey{}, otherwise)
}

type (
	// LookupFunc returns the addresses of a host.
	LookupFunc = func(ctx context.Context, host string) ([]netip.Addr, error)
	// DialFunc makes a connection to an address.
	DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)
)

type network struct {
	lookup LookupFunc
	dial   DialFunc
}

// WithNetwork makes a Client without Options.Dialer look names up by lookup, and connect to
// their addresses by dial.
func WithNetwork(ctx context.Context, lookup LookupFunc, dial DialFunc) context.Context {
	return context.WithValue(ctx, networkKey{}, network{lookup, dial})
}

// Network returns the functions set by WithNetwork, or otherwise lookup and dial.
func Network(ctx context.Context, lookup LookupFunc, dial DialFunc) (LookupFunc, DialFunc) {
	n := valueOr(ctx, networkKey{}, network{lookup, dial})
	return n.lookup, n.dial
}

func valueOr[V any](ctx context.Context, key any, otherwise V) V {
	if v, ok := ctx.Value(key).(V); ok {
		return v
	}
	return otherwise
}
