package sim

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// logTrace returns a Trace that logs everything, and checks that what it reports comes in
// pairs.
func (w *world) logTrace(i int) *zkrecipes.Trace {
	pairs := harness.NewPairs(func(format string, args ...any) {
		w.log.violation("trace: "+format, args...)
	})
	w.pairsMu.Lock()
	w.pairs = append(w.pairs, pairs)
	w.pairsMu.Unlock()
	missing := func(dropped int) {
		if dropped > 0 {
			w.log.violation("trace: %d calls were dropped", dropped)
		}
	}
	return &zkrecipes.Trace{
		AcquireStart: func(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
			return pairs.Start(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op})
		},
		Queued: func(ctx context.Context, e zkrecipes.TraceQueued) {
			w.log.note("trace %d: %s: queued 0x%x %s %s ahead %d", i, e.Op, e.Session, e.Path, e.Place, e.Ahead)
			missing(e.Dropped)
			pairs.Queued(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op})
		},
		AcquireEnd: func(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
			w.log.note("trace %d: %s: end after %v 0x%x %s %s 0x%x %v", i, e.Op, e.Wait, e.Session, e.Path, e.Place, int64(e.Token), e.Err)
			missing(e.Dropped)
			pairs.End(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Err: e.Err})
		},
		HoldStart: func(ctx context.Context, e zkrecipes.TraceHoldStart) {
			missing(e.Dropped)
			pairs.HoldStart(ctx, harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Hold: e.Hold})
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			w.log.note("trace %d: %s: held %v 0x%x %s %s 0x%x %v", i, e.Op, e.Held, e.Session, e.Path, e.Place, int64(e.Token), e.Err)
			missing(e.Dropped)
			pairs.HoldEnd(harness.Traced{Recipe: string(e.Recipe), Path: e.Path, Op: e.Op, Token: int64(e.Token), Hold: e.Hold, Err: e.Err})
		},
		Session: func(e zkrecipes.TraceSession) {
			w.log.note("trace %d: %v 0x%x %s %v", i, e.State, e.ID, e.Server, e.Err)
			missing(e.Dropped)
		},
	}
}
