package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// scenario is what a seed decides at the start.
type scenario struct {
	seed           uint64
	timeout        time.Duration // of sessions
	clients        int
	workers        int           // of each client
	rounds         int           // of each worker, about
	faultPhase     time.Duration // how long faults happen
	operator       bool          // an operator deletes places, and writes to them
	forcedExpiry   bool          // the server may expire the session of a live client
	pauses         bool          // the process of client 0 may stand still
	nearLimit      bool          // the sequence numbers of lines jump close to their limit
	lastNumber     int32         // the limit
	longLine       int           // a line with more children is long
	idleLine       time.Duration // clients delete lines that they have not used for so long
	skipACL        bool          // the server checks no ACLs
	noServerFaults bool          // the plan of the server is empty
	paths          []string
	restarts       bool          // processes close or kill their clients, and start again
	latency        time.Duration // of the network, maximum
	distance       time.Duration // the same for the last client, if it is far away
	segment        int64         // creates in a segment of a queue; 0 is the default
}

// newScenario returns the scenario of a seed, and the source from which its world
// goes on to draw. The order of the draws is part of what a seed means.
func newScenario(seed uint64) (scenario, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 1))
	oneIn := func(of int) bool { return r.IntN(of) == 0 }
	sc := scenario{
		seed:         seed,
		timeout:      time.Duration(2+r.IntN(9)) * time.Second,
		clients:      2 + r.IntN(4),
		workers:      1 + r.IntN(3),
		rounds:       3 + r.IntN(5),
		faultPhase:   time.Duration(20+r.IntN(60)) * time.Second,
		lastNumber:   math.MaxInt32 - 1_000_000, // as for users
		forcedExpiry: oneIn(2), pauses: oneIn(6), nearLimit: oneIn(12), skipACL: oneIn(12), noServerFaults: oneIn(4),
	}
	sc.operator = sc.forcedExpiry && oneIn(2)
	// A client that may stand still has no read deadline. A silent server would stop
	// it forever.
	sc.noServerFaults = sc.noServerFaults || sc.pauses
	sc.longLine = []int{0, 2, 16}[r.IntN(3)]
	// In a third of the seeds, lines are deleted right under those who join.
	sc.idleLine = []time.Duration{30 * time.Second, 3 * time.Second, 50 * time.Millisecond}[seed%3]
	return sc, r
}
