package operations

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// ongoing has the waits and holds that have begun and not ended.
type ongoing struct {
	mu    sync.Mutex
	began map[any]beginning
}

type beginning struct {
	name string
	at   time.Time
}

// waitKey is the key, in a context, of the wait that AcquireStart has begun.
type waitKey struct{}

// holdKey is what the AcquireEnd that begins a hold and its HoldEnd have in common.
type holdKey struct {
	path  string
	token zkrecipes.Token
}

func (o *ongoing) acquireStart(ctx context.Context, e zkrecipes.TraceAcquireStart) context.Context {
	if e.Recipe == zkrecipes.RecipeQueue && e.Op != "put" {
		return ctx // it waits for an item
	}
	wait := &beginning{"wait " + string(e.Recipe) + " " + e.Op, time.Now()}
	o.begin(wait, *wait)
	return context.WithValue(ctx, waitKey{}, wait)
}

func (o *ongoing) acquireEnd(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
	o.end(ctx.Value(waitKey{}), e.Dropped)
	if e.Token != 0 {
		o.begin(holdKey{e.Path, e.Token}, beginning{"hold " + string(e.Recipe) + " " + e.Op, e.Time})
	}
}

func (o *ongoing) holdEnd(e zkrecipes.TraceHoldEnd) { o.end(holdKey{e.Path, e.Token}, e.Dropped) }

func (o *ongoing) begin(key any, b beginning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began == nil {
		o.began = map[any]beginning{}
	}
	o.began[key] = b
}

// end notes an end. If others were dropped, nothing is known of what began before.
func (o *ongoing) end(key any, dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if dropped > 0 {
		clear(o.began)
	}
	delete(o.began, key)
}

// ages returns the age of the oldest wait and hold, by recipe and operation, in seconds.
func (o *ongoing) ages() any {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest := map[string]float64{}
	for _, b := range o.began {
		oldest[b.name] = max(oldest[b.name], time.Since(b.at).Seconds())
	}
	return oldest
}
