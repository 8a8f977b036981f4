package zkrecipes

import "context"

// JoinTraces returns a Trace that calls the functions of all of these, in their order. nil
// ones are left out. A function that none of them has stays unset, and costs nothing.
//
// The context that an AcquireStart returns is given to the next one. The last one's is passed
// to Queued, AcquireEnd and HoldStart of all of them. So do not return a context that is not
// derived from the one that was given, or the values of the others are lost. If an AcquireStart
// panics, those of the others are called, but what they return is lost, too.
func JoinTraces(traces ...*Trace) *Trace {
	joined := &Trace{}
	for _, t := range traces {
		if t != nil {
			joined = joinTwo(joined, t)
		}
	}
	return joined
}

func joinTwo(a, b *Trace) *Trace {
	return &Trace{
		AcquireStart: joinStarts(a.AcquireStart, b.AcquireStart),
		Queued:       joinWithContext(a.Queued, b.Queued),
		AcquireEnd:   joinWithContext(a.AcquireEnd, b.AcquireEnd),
		HoldStart:    joinWithContext(a.HoldStart, b.HoldStart),
		HoldEnd:      join(a.HoldEnd, b.HoldEnd),
		Session:      join(a.Session, b.Session),
	}
}

// startFunc is the type of Trace.AcquireStart.
type startFunc = func(context.Context, TraceAcquireStart) context.Context

func joinStarts(a, b startFunc) startFunc {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(ctx context.Context, e TraceAcquireStart) (last context.Context) {
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

func joinWithContext[E any](a, b func(context.Context, E)) func(context.Context, E) {
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

func join[E any](a, b func(E)) func(E) {
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
