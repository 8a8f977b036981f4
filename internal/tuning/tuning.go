// Package tuning lets tests outside the root package change what is constant for users, by the
// context with which a Client connects.
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

// Constants are what tests can change.
type Constants struct {
	Segment    int64         // creates after which a queue seals a segment; 0: as many as it chooses
	LastNumber int32         // that a Client grants a place in a line
	LongLine   int           // places, above which a line is long
	IdleLine   time.Duration // for which a Client keeps a line that it does not use
	// Lookup and Dial are the network of a Client without Options.Dialer.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

type key struct{}

// With returns a context whose Client uses the constants that change leaves.
func With(ctx context.Context, change func(*Constants)) context.Context {
	return context.WithValue(ctx, key{}, change)
}

// Of returns the constants of a Client that connects with ctx: c, unless With has them changed.
func Of(ctx context.Context, c Constants) Constants {
	if change, ok := ctx.Value(key{}).(func(*Constants)); ok {
		change(&c)
	}
	return c
}
