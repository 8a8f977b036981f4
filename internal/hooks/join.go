package hooks

import "context"

// JoinStarts returns a function that calls both, of which either may be nil. The context that
// one returns is given to the next one.
func JoinStarts[E any](a, b func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(ctx context.Context, e E) (last context.Context) {
		last = ctx
		defer func() { // also if a panics
			if next := b(last, e); next != nil {
				last = next
			}
		}()
		if next := a(ctx, e); next != nil {
			last = next
		}
		return last
	}
}

// JoinWithContext returns a function that calls both, of which either may be nil.
func JoinWithContext[E any](a, b func(context.Context, E)) func(context.Context, E) {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(ctx context.Context, e E) {
		defer b(ctx, e) // also if a panics
		a(ctx, e)
	}
}

// Join returns a function that calls both, of which either may be nil.
func Join[E any](a, b func(E)) func(E) {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(e E) {
		defer b(e) // also if a panics
		a(e)
	}
}
