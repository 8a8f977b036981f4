package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// scenario is what a seed decides.
type scenario struct {
	seed     uint64
	timeout  time.Duration // of sessions
	clients  int
	workers  int // of each client
	locks    []string
	rounds   int
	weather  time.Duration // for how long faults happen
	operator bool          // somebody deletes places, and writes to them
	forced   bool          // leases may end without their holders' knowing
	sleepy   bool          // clients may stand still
	foreign  []string      // other libraries' places in the lines
	counter  bool          // the lines' counters are near their end
	skipACL  bool
	quiet    bool // no faults of the server
}

func newScenario(seed uint64, of recipe) scenario {
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
	sc.locks = []string{"/app/locks/a", "/app/locks/b"}[:1+r.IntN(2)]
	if one(4) {
		sc.foreign = of.others[r.IntN(len(of.others))]
	}
	return sc
}

// world is a server, its clients, and what befalls them.
type world struct {
	recipe
	scenario
	srv    *zktest.Server
	plan   *zktest.Plan
	h      *history
	befell *tally
	lines  *lines
	ctx    context.Context // ends when the run is given up

	mu      sync.Mutex
	holding map[*grant]struct{} // out, and not being released
}

// simulate runs a seed in a bubble of its own and returns what went wrong.
func (w *world) simulate() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx, w.h, w.befell, w.holding = ctx, newHistory(), newTally(), map[*grant]struct{}{}
	w.lines = newLines(func(path string) {
		if !w.skipACL { // else anybody can
			w.h.violation("a signal of %s, which is not for it to give", path)
		}
	})
	w.plan = w.faults()
	opts := []zktest.Option{
		zktest.InMemory(), zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Minute),
		zktest.ContainerCheckInterval(3 * time.Second), zktest.WithPlan(w.plan), zktest.OnChange(w.lines.applied),
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
	defer srv.Close()

	var nets []*network
	var clients []*zkrecipes.Client
	for i := range w.clients {
		n := newNetwork(srv)
		n.sleepy = w.sleepy && i == 0
		c, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, &zkrecipes.Options{
			SessionTimeout: w.timeout, Dialer: n.dial, Identity: fmt.Sprint("client ", i), Trace: w.trace(i),
		})
		if err != nil {
			w.h.violation("dial: %v", err)
			return
		}
		nets, clients = append(nets, n), append(clients, c)
	}
	if w.counter {
		w.nearTheEnd(clients[0])
	}

	calm := make(chan struct{}) // closed when nothing befalls anybody any more
	var all, weather sync.WaitGroup
	for i, n := range nets {
		weather.Go(func() { w.weatherOf(i, n, calm) })
	}
	for i, prefix := range w.foreign {
		weather.Go(func() { w.foreigner(i, prefix, calm) })
	}
	if w.operator || w.skipACL {
		weather.Go(func() { w.operate(calm) })
	}
	for i, c := range clients {
		for j := range w.workers {
			all.Go(func() { w.work(i, j, c) })
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
	select {
	case <-done:
	case <-time.After(time.Duration(w.clients*w.workers*w.rounds+20) * 4 * w.timeout):
		w.h.violation("somebody waits for ever:\n%s", srv.Tree())
		cancel()
		<-done
	}

	// At rest: nobody holds, nobody waits.
	time.Sleep(3 * w.timeout)
	synctest.Wait()
	for _, path := range w.locks {
		if left := srv.Children(path); len(left) > 0 {
			w.h.violation("%s: left behind: %v\n%s", path, left, srv.Tree())
		}
	}
	for i, c := range clients {
		if err := c.Close(); err != nil {
			w.h.violation("close of client %d: %v", i, err)
		}
	}
	if left := srv.Sessions(); len(left) > 0 && !w.expiring(left) {
		w.h.violation("sessions left: %v", left)
	}
	w.h.judge()
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

func (w *world) trace(i int) *zkrecipes.Trace {
	note := func(what string) func(zkrecipes.TraceEvent) {
		return func(e zkrecipes.TraceEvent) {
			w.h.note("trace %d: %s 0x%x %s %s 0x%x ahead %d %v", i, what, e.Session, e.Path, e.Place, int64(e.Token), e.Ahead, e.Err)
		}
	}
	return &zkrecipes.Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"),
		Lost: func(e zkrecipes.TraceEvent) {
			note("lost")(e)
			w.deletedByNobody(e.Err)
		},
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

// nearTheEnd has the lines made, and then moves their counters.
func (w *world) nearTheEnd(c *zkrecipes.Client) {
	for i, path := range w.locks {
		l, err := w.of(c, path).lock(w.ctx)
		if err == nil {
			err = l.Release()
		}
		if err != nil {
			w.h.violation("first use: %v", err)
		}
		at := []int32{math.MaxInt32 - 1_000_000 - 3, math.MaxInt32 - 2}[i%2]
		if err := w.srv.SetCounter(path, at); err != nil {
			w.h.note("%v", err) // reaped by now
		}
	}
}
