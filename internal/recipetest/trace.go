package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Tracer notes what a Trace reports, as text, and checks that it comes in pairs.
type Tracer struct {
	*harness.Pairs
	mu      sync.Mutex
	all     []string
	granted string // see Granted
}

func NewTracer(t testing.TB) *Tracer {
	return &Tracer{Pairs: harness.NewPairs(func(format string, args ...any) {
		t.Errorf("trace: "+format, args...)
	})}
}

func (r *Tracer) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf(format, args...))
}

// Told returns what was reported since the last call. It is used in bubbles.
func (r *Tracer) Told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return slices.Clip(all)
}

// Granted returns the name of the place that was granted last. It is used in bubbles.
func (r *Tracer) Granted() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.granted
}

// named are the errors that a tracer knows by name. The first that fits counts.
var named = []struct {
	err  error
	name string
}{
	{zkrecipes.ErrLost, "lost"}, {zkrecipes.ErrClosed, "closed"}, {zkrecipes.ErrLocked, "locked"}, {zkrecipes.ErrEmpty, "empty"}, {zkrecipes.ErrEvicted, "evicted"},
	{zkrecipes.ErrUpgrade, "upgrade"}, {zkrecipes.ErrDeadlock, "deadlock"}, {zkrecipes.ErrSize, "size"}, {context.Canceled, "canceled"},
}

func errName(err error) string {
	for _, n := range named {
		if errors.Is(err, n.err) {
			return n.name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func (r *Tracer) Trace() *zkrecipes.Trace {
	traced := func(recipe zkrecipes.Recipe, path, op string, token zkrecipes.Token, err error) harness.Traced {
		return harness.Traced{Recipe: string(recipe), Path: path, Op: op, Token: int64(token), Err: err}
	}
	return &zkrecipes.Trace{
		AcquireStart: func(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
			return r.Start(ctx, traced(e.Recipe, e.Path, e.Op, 0, nil))
		},
		Queued: func(ctx context.Context, e zkrecipes.TraceQueued) {
			r.Queued(ctx, traced(e.Recipe, e.Path, e.Op, 0, nil))
			r.note("%s %s queued behind %d", e.Recipe, e.Op, e.Ahead)
		},
		AcquireEnd: func(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
			r.End(ctx, traced(e.Recipe, e.Path, e.Op, e.Token, e.Err))
			r.note("%s %s %s", e.Recipe, e.Op, errName(e.Err))
		},
		HoldStart: func(ctx context.Context, e zkrecipes.TraceHoldStart) {
			begun := traced(e.Recipe, e.Path, e.Op, e.Token, nil)
			begun.Hold = e.Hold
			r.HoldStart(ctx, begun)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.granted = e.Place
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			ended := traced(e.Recipe, e.Path, e.Op, e.Token, e.Err)
			ended.Hold = e.Hold
			r.HoldEnd(ended)
			r.note("%s %s held, %s", e.Recipe, e.Op, errName(e.Err))
		},
	}
}
