// Package tuning has what tests outside the root package set and users cannot:
// sizes that are constants to everybody else. They are values of the context that
// a Client is made with.
package tuning

import "context"

type segmentKey struct{}

// WithSegment has the queues of a Client seal a segment after n creates.
func WithSegment(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, segmentKey{}, n)
}

// Segment returns what WithSegment was given; 0 where it was not.
func Segment(ctx context.Context) int64 {
	n, _ := ctx.Value(segmentKey{}).(int64)
	return n
}
