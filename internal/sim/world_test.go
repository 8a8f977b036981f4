package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// scenario is what a seed decides.
type scenario struct {
	seed     uint64
	timeout  time.Duration // of sessions
	clients  int
	workers  int // of each client
	rounds   int
	weather  time.Duration // for how long faults happen
	operator bool          // somebody deletes places, and writes to them
	forced   bool          // sessions may end without their clients' knowing
	sleepy   bool          // clients may stand still
	counter  bool          // the lines' counters are near their end
	skipACL  bool
	quiet    bool // no faults of the server
	paths    []string
	mortal   bool          // clients die, and come back
	latency  time.Duration // of the network, at most
	segment  int64         // of queues: how many creates; 0: as always
}

// newScenario returns what a seed decides, and what its world may go on to draw
// from.
func newScenario(seed uint64) (scenario, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 1))
	one := func(of int) bool { return r.IntN(of) == 0 }
	sc := scenario{
		seed:    seed,
		timeout: time.Duration(2+r.IntN(9)) * time.Second,
		clients: 2 + r.IntN(4),
		workers: 1 + r.IntN(3),
		rounds:  3 + r.IntN(5),
		weather: time.Duration(20+r.IntN(60)) * time.Second,
		forced:  one(2), sleepy: one(6), counter: one(12), skipACL: one(12), quiet: one(4),
	}
	sc.operator = sc.forced && one(2)
	// Who stands still has no watchdog: a server that is silent would stop it for ever.
	sc.quiet = sc.quiet || sc.sleepy
	return sc, r
}

// subject is what a world is about: what is done in it, and what must hold.
type subject interface {
	// applied is zktest.OnChange's.
	applied(zktest.Change)
	trace(i int) *zkrecipes.Trace
	begin()
	// befall has happen what does beside the network and the server's faults.
	befall(weather *sync.WaitGroup, calm <-chan struct{})
	// work is the life of one of a client's workers.
	work(p *process, j int)
	// settle is called now and then once it is calm, to end the calls of those who
	// rightly wait.
	settle()
	// rest is called when no worker is left.
	rest()
}

// world is a server, its clients, and what befalls them.
type world struct {
	subject
	scenario
	srv       *zktest.Server
	plan      *zktest.Plan
	h         *record
	befell    *tally
	processes []*process
	ctx       context.Context // ends when the run is given up
}

// simulate runs a seed in a bubble of its own.
func (w *world) simulate() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx, w.h, w.befell = tuning.WithSegment(ctx, w.segment), newRecord(), newTally()
	w.plan = w.faults()
	opts := []zktest.Option{
		zktest.InMemory(), zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Minute),
		zktest.ContainerCheckInterval(3 * time.Second), zktest.WithPlan(w.plan), zktest.OnChange(w.applied),
	}
	if w.skipACL {
		opts = append(opts, zktest.SkipACL())
	}
	srv, err := zktest.Start(opts...)
	if err != nil {
		w.h.violation("%v", err)
		return
	}
	w.srv = srv
	defer func() {
		srv.Close()
		time.Sleep(2 * w.latency) // the last bytes arrive
	}()

	for i := range w.clients {
		p := newProcess(w, i)
		if err := p.start(); err != nil {
			w.h.violation("dial: %v", err)
			return
		}
		w.processes = append(w.processes, p)
	}
	w.begin()

	calm := make(chan struct{}) // closed when nothing befalls anybody any more
	var all, weather sync.WaitGroup
	for _, p := range w.processes {
		weather.Go(func() { w.weatherOf(p, calm) })
	}
	w.befall(&weather, calm)
	for _, p := range w.processes {
		for j := range w.workers {
			all.Go(func() { w.work(p, j) })
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	select {
	case <-time.After(w.weather):
	case <-done:
	}
	close(calm)
	w.plan.Stop()
	weather.Wait()
	w.h.note("calm")
	tooLong := time.After(time.Duration(w.clients*w.workers*w.rounds+20) * 4 * w.timeout)
	for left := true; left; {
		select {
		case <-done:
			left = false
		case <-time.After(w.timeout):
			w.settle()
		case <-tooLong:
			w.h.violation("somebody waits for ever:\n%s", srv.Tree())
			cancel()
			<-done
			left = false
		}
	}

	// At rest: nobody holds, nobody waits.
	time.Sleep(3 * w.timeout)
	synctest.Wait()
	w.rest()
	for i, p := range w.processes {
		if err := p.client().Close(); err != nil {
			w.h.violation("close of client %d: %v", i, err)
		}
	}
	if left := srv.Sessions(); len(left) > 0 && !w.expiring(left) {
		w.h.violation("sessions left: %v", left)
	}
}

// faults are those of the server.
func (w *world) faults() *zktest.Plan {
	p := zktest.NewPlan()
	if w.quiet {
		return p
	}
	for _, f := range zktest.PlanFromSeed(w.seed, 30, 400, w.timeout*3/2).Faults() {
		if f.Do != zktest.Expire || w.forced {
			p.Add(f)
		}
	}
	return p
}

// expiring tells sessions of clients that are gone, and will end by themselves.
func (w *world) expiring(ss []zktest.Session) bool {
	return !slices.ContainsFunc(ss, func(s zktest.Session) bool { return s.Connected })
}

// notes returns a Trace that notes everything.
func (w *world) notes(i int) *zkrecipes.Trace {
	note := func(what string) func(zkrecipes.TraceEvent) {
		return func(e zkrecipes.TraceEvent) {
			w.h.note("trace %d: %s 0x%x %s %s 0x%x ahead %d %v", i, what, e.Session, e.Path, e.Place, int64(e.Token), e.Ahead, e.Err)
		}
	}
	return &zkrecipes.Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

// nothingLeft: no children of a path at rest.
func (w *world) nothingLeft(path string) {
	if left := w.srv.Children(path); len(left) > 0 {
		w.h.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
	}
}

// identity is how the places of a client's life can be told.
func identity(i, life int) string { return fmt.Sprintf("client %d.%d", i, life) }
