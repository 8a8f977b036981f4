package zktest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is a list of faults that a server follows, and what became of it. It may
// be used by one server at a time, and from any goroutine.
type Plan struct {
	left atomic.Int32 // faults that can still fire

	mu     sync.Mutex
	faults []*planned
}

type planned struct {
	Fault
	matched, fired int
	stopped        bool
}

func (f *planned) spent() bool {
	return f.stopped || f.Times >= 0 && f.fired >= max(f.Times, 1)
}

// NewPlan returns a plan of these faults. Each counts the requests that match
// it for itself; where several fire on one request all of them happen, as far
// as they can.
func NewPlan(faults ...Fault) *Plan {
	p := &Plan{}
	p.Add(faults...)
	return p
}

// Add adds faults, to a plan that is followed already too. They count requests
// from now on.
func (p *Plan) Add(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		p.faults = append(p.faults, &planned{Fault: f})
		p.left.Add(1)
	}
}

// Faults returns the faults of the plan, as they were added.
func (p *Plan) Faults() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []Fault
	for _, f := range p.faults {
		faults = append(faults, f.Fault)
	}
	return faults
}

// Stop ends all faults of the plan: none fires from now on.
func (p *Plan) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !f.spent() {
			f.stopped = true
			p.left.Add(-1)
		}
	}
}

// String returns the plan, a line for each fault, with how many requests it
// matched and how often it fired.
func (p *Plan) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, f := range p.faults {
		fmt.Fprintf(&b, "%v: matched %d, fired %d\n", f.Fault, f.matched, f.fired)
	}
	return b.String()
}

// Fired returns how often faults of each kind fired, "drop after" for one.
// Kinds of the plan that never fired are there with 0.
func (p *Plan) Fired() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := map[string]int{}
	for _, f := range p.faults {
		n[f.kind()] += f.fired
	}
	return n
}

// verdict is what happens to a request besides being served, or instead.
type verdict struct {
	drop, withhold, expire bool
	delay                  time.Duration
	err                    int32
}

// idle is true when no fault is left, so that nothing need be asked.
func (p *Plan) idle() bool { return p.left.Load() == 0 }

// before says what happens to a request that has arrived.
func (p *Plan) before(e event) verdict { return p.ask(e, false) }

// after says what happens to a request that has been applied and not answered.
func (p *Plan) after(e event) verdict { return p.ask(e, true) }

func (p *Plan) ask(e event, after bool) (v verdict) {
	if p.idle() {
		return v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.After != after || !f.matches(e) || !p.fires(f) {
			continue
		}
		switch f.Do {
		case Drop:
			v.drop = true
		case Withhold:
			v.withhold = true
		case Delay:
			v.delay += f.For
		case Answer:
			v.err = f.Code
		case Expire:
			v.expire = true
		}
	}
	return v
}

// fires counts a match and tells whether it is one of those to fire on.
func (p *Plan) fires(f *planned) bool {
	f.matched++
	if f.matched <= f.Skip || f.spent() {
		return false
	}
	f.fired++
	if f.spent() {
		p.left.Add(-1)
	}
	return true
}

var errRefused = errors.New("zktest: connection refused by the plan")

// accept says what happens to a new connection.
func (p *Plan) accept() (silent bool, err error) {
	for _, f := range p.connecting(Refuse, Silence) {
		silent = silent || f.Do == Silence
		if f.Do == Refuse {
			err = errRefused
		}
	}
	return silent, err
}

// lag says how far behind the replica of a new connection may be.
func (p *Plan) lag() (l lag) {
	for _, f := range p.connecting(Lag) {
		l = lag{behind: max(l.behind, f.Behind), atMost: max(l.atMost, f.For)}
	}
	return l
}

// connecting returns the faults that fire on a new connection.
func (p *Plan) connecting(kinds ...Action) (fire []Fault) {
	if p.idle() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		for _, kind := range kinds {
			if f.Do == kind && p.fires(f) {
				fire = append(fire, f.Fault)
			}
		}
	}
	return fire
}

// lags tells whether the plan has replicas lag.
func (p *Plan) lags() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.Do == Lag {
			return true
		}
	}
	return false
}
