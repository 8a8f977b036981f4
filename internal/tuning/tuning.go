// Package tuning lets tests outside the root package change sizes that are
// constants for users. The sizes are values of the context with which a Client
// connects.
package tuning

import "context"

type segmentKey struct{}

// WithSegment makes the queues of a Client seal a segment after n creates.
func WithSegment(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, segmentKey{}, n)
}

// Segment returns the size set by WithSegment, or 0.
func Segment(ctx context.Context) int64 {
	n, _ := ctx.Value(segmentKey{}).(int64)
	return n
}
