package harness

import (
	"context"
	"fmt"
	"sync"
)

// Traced is what a Trace's function says of an acquisition or of a hold.
type Traced struct {
	Recipe, Path, Op string
	Token            int64 // 0: nothing is held
	Hold             any   // identifies the hold, at its start and its end
	Err              error
}

func (e Traced) String() string { return fmt.Sprintf("%s of %s %s", e.Op, e.Recipe, e.Path) }

// granted is what an AcquireEnd with a token and the HoldStart after it have in common. No two
// grants have the same.
type granted struct {
	path  string
	token int64
}

// Pairs checks that what a Client's Trace reports comes in pairs: an AcquireEnd for each
// AcquireStart, a HoldStart after each AcquireEnd with a token, and a HoldEnd after each
// HoldStart.
type Pairs struct {
	// Fault is called with what is wrong, at any time.
	Fault func(format string, args ...any)

	mu    sync.Mutex
	calls map[*Traced]struct{} // acquisitions under way
	got   map[*Traced]Traced   // by acquisition, the AcquireEnd with a token whose HoldStart has yet to come
	holds map[any]Traced
	over  map[any]bool // of those that were ever reported; true: it has ended
	ever  map[granted]bool
	ends  map[string]int
}

// NewPairs returns a check to which nothing was reported.
func NewPairs(fault func(format string, args ...any)) *Pairs {
	return &Pairs{
		Fault: fault, calls: map[*Traced]struct{}{}, got: map[*Traced]Traced{}, holds: map[any]Traced{}, over: map[any]bool{},
		ever: map[granted]bool{}, ends: map[string]int{},
	}
}

type callKey struct{}

// Start returns the context for the rest of the acquisition.
func (p *Pairs) Start(ctx context.Context, e Traced) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[&e] = struct{}{}
	return context.WithValue(ctx, callKey{}, &e)
}

// call returns the acquisition that is under way with ctx. p.mu must be held.
func (p *Pairs) call(ctx context.Context, what string, e Traced) *Traced {
	call, _ := ctx.Value(callKey{}).(*Traced)
	_, ok := p.calls[call]
	switch {
	case call == nil:
		p.Fault("%s without the context of its start: %v", what, e)
	case !ok:
		p.Fault("%s after the end: %v", what, e)
	case call.Recipe != e.Recipe || call.Path != e.Path || call.Op != e.Op:
		p.Fault("%s of %v began as %v", what, e, *call)
	}
	return call
}

// Queued follows a wait.
func (p *Pairs) Queued(ctx context.Context, e Traced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call(ctx, "queued", e)
}

// End follows the end of an acquisition.
func (p *Pairs) End(ctx context.Context, e Traced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.call(ctx, "end", e)
	delete(p.calls, call)
	p.ends[e.Recipe+" "+e.Op]++
	nothing := e.Recipe == "barrier" || e.Recipe == "gate" || e.Op == "put"
	if held := e.Token != 0; held == (e.Err != nil || nothing) {
		p.Fault("end of %v with token %d and error %v", e, e.Token, e.Err)
	}
	if e.Token == 0 {
		return
	}
	key := granted{e.Path, e.Token}
	if p.ever[key] {
		p.Fault("token %d twice: %v", e.Token, e)
	}
	p.ever[key], p.got[call] = true, e
}

// HoldStart follows the start of a hold. It must come with the context of its acquisition, after
// the end of that.
func (p *Pairs) HoldStart(ctx context.Context, e Traced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call, _ := ctx.Value(callKey{}).(*Traced)
	end, ok := p.got[call]
	_, twice := p.over[e.Hold]
	switch {
	case !ok:
		p.Fault("hold starts before its acquisition has ended, or twice, or without its context: %v", e)
	case end.Recipe != e.Recipe || end.Path != e.Path || end.Op != e.Op || end.Token != e.Token:
		p.Fault("hold of %v, token %d, starts after %v, token %d", e, e.Token, end, end.Token)
	case twice:
		p.Fault("the hold of two: %v", e)
	}
	delete(p.got, call)
	p.holds[e.Hold], p.over[e.Hold] = e, false
}

// HoldEnd follows the end of a hold.
func (p *Pairs) HoldEnd(e Traced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun, ok := p.holds[e.Hold]
	switch {
	case !ok && p.over[e.Hold]:
		p.Fault("hold ends twice: %v, token %d", e, e.Token)
	case !ok:
		p.Fault("hold ends before it began: %v, token %d", e, e.Token)
	case begun.Recipe != e.Recipe, begun.Path != e.Path, begun.Token != e.Token, begun.Op != e.Op && e.Op != "downgrade":
		p.Fault("hold of %v, token %d, began as %v, token %d", e, e.Token, begun, begun.Token)
	}
	delete(p.holds, e.Hold)
	p.over[e.Hold] = true
}

// Ended returns how many acquisitions have ended, by recipe and operation.
func (p *Pairs) Ended() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := map[string]int{}
	for what, n := range p.ends {
		ended[what] = n
	}
	return ended
}

// Rest checks that no acquisition is under way, and that nothing is held.
func (p *Pairs) Rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for call := range p.calls {
		p.Fault("acquisition has not ended: %v", *call)
	}
	for _, e := range p.got {
		p.Fault("hold has not started: %v, token %d", e, e.Token)
	}
	for _, e := range p.holds {
		p.Fault("hold has not ended: %v, token %d", e, e.Token)
	}
}
