package sim

import (
	"math/rand/v2"
	"time"
)

// scenario is what a seed decides.
type scenario struct {
	seed           uint64
	timeout        time.Duration // of sessions
	clients        int
	workers        int // of each client
	rounds         int
	faultPhase     time.Duration // for how long faults happen
	operator       bool          // somebody deletes places, and writes to them
	forcedExpiry   bool          // sessions may end without their clients' knowing
	pauses         bool          // clients may stand still
	nearLimit      bool          // the lines' counters are near their end
	skipACL        bool
	noServerFaults bool // no faults of the server
	paths          []string
	restarts       bool          // clients die, and come back
	latency        time.Duration // of the network, at most
	segment        int64         // of queues: how many creates; 0: as always
}

// newScenario returns what a seed decides, and what its world may go on to draw
// from.
func newScenario(seed uint64) (scenario, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 1))
	one := func(of int) bool { return r.IntN(of) == 0 }
	sc := scenario{
		seed:         seed,
		timeout:      time.Duration(2+r.IntN(9)) * time.Second,
		clients:      2 + r.IntN(4),
		workers:      1 + r.IntN(3),
		rounds:       3 + r.IntN(5),
		faultPhase:   time.Duration(20+r.IntN(60)) * time.Second,
		forcedExpiry: one(2), pauses: one(6), nearLimit: one(12), skipACL: one(12), noServerFaults: one(4),
	}
	sc.operator = sc.forcedExpiry && one(2)
	// Who stands still has no watchdog: a server that is silent would stop it for ever.
	sc.noServerFaults = sc.noServerFaults || sc.pauses
	return sc, r
}
