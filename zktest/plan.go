package zktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is a list of faults for a server to produce. It records which of them
// fired. Its methods may be called from any goroutine. A plan serves one server
// at a time.
type Plan struct {
	remaining atomic.Int32 // faults that can still fire

	mu     sync.Mutex
	faults []*plannedFault
	noLog  bool // the server that follows the plan can serve no Lag
}

type plannedFault struct {
	Fault
	matched, fired int
	found          int // of fired: a Miscount has found a child too many
	stopped        bool
}

// acted returns how often the fault has fired and done something.
func (f *plannedFault) acted() int {
	if f.Do == Miscount {
		return f.found
	}
	return f.fired
}

func (f *plannedFault) spent() bool {
	return f.stopped || f.Times >= 0 && f.fired >= max(f.Times, 1)
}

// NewPlan returns a plan of faults. Each fault counts the requests that match it
// independently. If several faults fire on one request, they are combined as far
// as possible. NewPlan panics if a fault has no Action, sets a field that its Action
// ignores, or can do nothing, see Fault.
func NewPlan(faults ...Fault) *Plan {
	p := &Plan{}
	p.Add(faults...)
	return p
}

// Add adds faults to the plan, which a server may already follow. The new faults
// count requests from now on. Add panics where NewPlan does, and if a running server
// cannot serve a Lag because its plan had none at first. It adds none then.
func (p *Plan) Add(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		err := f.check()
		if err == nil && f.Do == Lag && p.noLog {
			err = errNoLag
		}
		if err != nil {
			panic(fmt.Sprintf("zktest: fault %v: %v", f, err))
		}
	}
	for _, f := range faults {
		p.faults = append(p.faults, &plannedFault{Fault: f})
		p.remaining.Add(1)
	}
}

var errNoLag = errors.New("the plan had no such fault when the server started")

// Faults returns the faults in the order in which they were added.
func (p *Plan) Faults() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []Fault
	for _, f := range p.faults {
		faults = append(faults, f.Fault)
	}
	return faults
}

// Stop stops all faults. None fires from now on, except those added later.
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

// String returns one line for each fault, with the number of requests that it
// matched and how often it fired.
func (p *Plan) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, f := range p.faults {
		fmt.Fprintf(&b, "%v: matched %d, fired %d\n", f.Fault, f.matched, f.acted())
	}
	return b.String()
}

// Fired returns how often the faults of each kind fired, with keys such as
// "drop after". Kinds in the plan that never fired have count 0. A Miscount that found
// no child too many uses up one of Fault.Times, but is not counted.
func (p *Plan) Fired() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := map[string]int{}
	for _, f := range p.faults {
		n[f.kind()] += f.acted()
	}
	return n
}

// verdict is the combined effect of all faults that fire on a request.
type verdict struct {
	drop, withhold, expire bool
	delay                  time.Duration
	err                    int32
	miscounts              []*plannedFault
	last                   bool // the connection may end here, so nothing is decided yet of what is behind
}

// exhausted reports whether no fault can fire any more. It takes no lock.
func (p *Plan) exhausted() bool { return p.remaining.Load() == 0 }

// before returns what happens to a request that has arrived, behind so many on its connection that are
// not applied yet.
func (p *Plan) before(e requestInfo, pending int) verdict {
	v := p.decide(e, false)
	v.last = v.drop || v.withhold || v.expire || p.mayEnd(e, pending)
	return v
}

// mayEnd reports whether a fault may end the connection after the request.
func (p *Plan) mayEnd(e requestInfo, pending int) bool {
	if p.exhausted() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.faults, func(f *plannedFault) bool {
		return f.After && (f.Do == Drop || f.Do == Expire) && !f.spent() && f.matched+pending >= f.Skip && f.matches(e)
	})
}

// after returns what happens to a request that has been applied, before its
// reply is sent.
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
		case Miscount:
			v.miscounts = append(v.miscounts, f)
		}
	}
	return v
}

// found counts that these Miscounts have found a child too many.
func (p *Plan) found(miscounts []*plannedFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range miscounts {
		f.found++
	}
}

// countMatch counts a match and reports whether the fault fires on it.
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

// onConnect decides what happens to a new connection. An error refuses it.
func (p *Plan) onConnect() (silent bool, err error) {
	for _, f := range p.fireOnConnect(Refuse, Silence) {
		silent = silent || f.Do == Silence
		if f.Do == Refuse {
			err = errRefused
		}
	}
	return silent, err
}

// replicaLag returns how far the replica of a new connection may lag. It is zero
// if no fault fires.
func (p *Plan) replicaLag() (l replicaLag) {
	for _, f := range p.fireOnConnect(Lag) {
		l = replicaLag{maxBehind: max(l.maxBehind, f.Behind), maxAge: max(l.maxAge, f.For)}
	}
	return l
}

// fireOnConnect returns the faults of these kinds that fire on a new connection.
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

// begin is called when a server starts to follow the plan. It reports whether the plan
// contains a Lag, for which the server must keep a log.
func (p *Plan) begin() (keepLog bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keepLog = slices.ContainsFunc(p.faults, func(f *plannedFault) bool { return f.Do == Lag })
	p.noLog = !keepLog
	return keepLog
}

// end is called when the server is closed.
func (p *Plan) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noLog = false
}
