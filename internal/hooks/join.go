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
	return func(ctx context.Context, e E) context.Context {
		ctx, panicked := Start(ctx, a, e)
		ctx, again := Start(ctx, b, e)
		if panicked == nil {
			panicked = again
		}
		if panicked != nil {
			panic(startPanic{panicked, ctx})
		}
		return ctx
	}
}

// startPanic is what a joined function panics with if one of the two has panicked. The context is what
// the other one has returned.
type startPanic struct {
	value any
	ctx   context.Context
}

// Start calls f. It returns f's context, or ctx if that is nil, and what f has panicked with.
func Start[E any](ctx context.Context, f func(context.Context, E) context.Context, e E) (started context.Context, panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			started = ctx
		}
		if p, joined := panicked.(startPanic); joined {
			started, panicked = p.ctx, p.value
		}
	}()
	if started = f(ctx, e); started == nil {
		started = ctx
	}
	return started, nil
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
