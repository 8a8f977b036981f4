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
	remaining atomic.Int32 // faults that can still fire

	mu     sync.Mutex
	faults []*plannedFault
}

type plannedFault struct {
	Fault
	matched, fired int
	stopped        bool
}

func (f *plannedFault) spent() bool {
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
		p.faults = append(p.faults, &plannedFault{Fault: f})
		p.remaining.Add(1)
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
			p.remaining.Add(-1)
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
func (p *Plan) exhausted() bool { return p.remaining.Load() == 0 }

// before says what happens to a request that has arrived.
func (p *Plan) before(e requestInfo) verdict { return p.decide(e, false) }

// after says what happens to a request that has been applied and not answered.
func (p *Plan) after(e requestInfo) verdict { return p.decide(e, true) }

func (p *Plan) decide(e requestInfo, after bool) (v verdict) {
	if p.exhausted() {
		return v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.After != after || !f.matches(e) || !p.countMatch(f) {
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
func (p *Plan) countMatch(f *plannedFault) bool {
	f.matched++
	if f.matched <= f.Skip || f.spent() {
		return false
	}
	f.fired++
	if f.spent() {
		p.remaining.Add(-1)
	}
	return true
}

var errRefused = errors.New("zktest: connection refused by the plan")

// accept says what happens to a new connection.
func (p *Plan) onConnect() (silent bool, err error) {
	for _, f := range p.fireOnConnect(Refuse, Silence) {
		silent = silent || f.Do == Silence
		if f.Do == Refuse {
			err = errRefused
		}
	}
	return silent, err
}

// lag says how far behind the replica of a new connection may be.
func (p *Plan) replicaLag() (l replicaLag) {
	for _, f := range p.fireOnConnect(Lag) {
		l = replicaLag{maxBehind: max(l.maxBehind, f.Behind), maxAge: max(l.maxAge, f.For)}
	}
	return l
}

// connecting returns the faults that fire on a new connection.
func (p *Plan) fireOnConnect(kinds ...Action) (fire []Fault) {
	if p.exhausted() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		for _, kind := range kinds {
			if f.Do == kind && p.countMatch(f) {
				fire = append(fire, f.Fault)
			}
		}
	}
	return fire
}

// lags tells whether the plan has replicas lag.
func (p *Plan) hasLag() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.Do == Lag {
			return true
		}
	}
	return false
}
