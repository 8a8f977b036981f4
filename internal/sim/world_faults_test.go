package sim

import (
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// disturbNetwork cuts and freezes the network of a process until stop is closed.
func (w *world) disturbNetwork(p *process, stop <-chan struct{}) {
	i, n := p.i, p.net
	r := rand.New(rand.NewPCG(w.seed, uint64(1000+i)))
	if r.IntN(3) == 0 && !n.pauses {
		return
	}
	defer n.thaw()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(20 * time.Second)))):
		case <-stop:
			return
		}
		switch what := r.IntN(4); {
		case what < 2 && !n.pauses:
			w.log.note("network of client %d: cut", i)
			n.cut()
		default:
			d := time.Duration(r.Int64N(int64(2 * w.timeout)))
			w.log.note("network of client %d: frozen for %v", i, d)
			n.freeze()
			select {
			case <-time.After(d):
			case <-stop:
			}
			n.thaw()
			if n.pauses {
				w.events.add("client paused")
			} else {
				w.events.add("partition")
			}
		}
	}
}

// serverFaults returns the plan of the server.
func (w *world) serverFaults() *zktest.Plan {
	p := zktest.NewPlan()
	if w.noServerFaults {
		return p
	}
	for _, f := range zktest.PlanFromSeed(w.seed, 30, 400, w.timeout*3/2).Faults() {
		if f.Do != zktest.Expire || w.forcedExpiry {
			p.Add(f)
		}
	}
	return p
}
