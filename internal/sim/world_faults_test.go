package sim

import (
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// weatherOf is what befalls a client's network.
func (w *world) disturbNetwork(p *process, calm <-chan struct{}) {
	i, n := p.i, p.net
	r := rand.New(rand.NewPCG(w.seed, uint64(1000+i)))
	if r.IntN(3) == 0 && !n.pauses {
		return
	}
	defer n.thaw()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(20 * time.Second)))):
		case <-calm:
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
			case <-calm:
			}
			n.thaw()
			if n.pauses {
				w.events.add("client asleep")
			} else {
				w.events.add("partition")
			}
		}
	}
}

// faults are those of the server.
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
