package sim

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// subject is what a world is about: what is done in it, and what must hold.
type workload interface {
	// applied is zktest.OnChange's.
	onChange(zktest.Change)
	trace(i int) *zkrecipes.Trace
	begin()
	// befall has happen what does beside the network and the server's faults.
	startFaults(weather *sync.WaitGroup, calm <-chan struct{})
	// work is the life of one of a client's workers.
	work(p *process, j int)
	// settle is called now and then once it is calm, to end the calls of those who
	// rightly wait.
	unblock()
	// rest is called when no worker is left.
	checkAtRest()
}

// world is a server, its clients, and what befalls them.
type world struct {
	workload
	scenario
	srv       *zktest.Server
	plan      *zktest.Plan
	log       *runLog
	events    *eventCounts
	processes []*process
	ctx       context.Context // ends when the run is given up
}

// simulate runs a seed in a bubble of its own.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx, w.log, w.events = tuning.WithSegment(ctx, w.segment), newRunLog(), newEventCounts()
	w.plan = w.serverFaults()
	opts := []zktest.Option{
		zktest.InMemory(), zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Minute),
		zktest.ContainerCheckInterval(3 * time.Second), zktest.WithPlan(w.plan), zktest.OnChange(w.onChange),
	}
	if w.skipACL {
		opts = append(opts, zktest.SkipACL())
	}
	srv, err := zktest.Start(opts...)
	if err != nil {
		w.log.violation("%v", err)
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
			w.log.violation("dial: %v", err)
			return
		}
		w.processes = append(w.processes, p)
	}
	w.begin()

	calm := make(chan struct{}) // closed when nothing befalls anybody any more
	var all, weather sync.WaitGroup
	for _, p := range w.processes {
		weather.Go(func() { w.disturbNetwork(p, calm) })
	}
	w.startFaults(&weather, calm)
	for _, p := range w.processes {
		for j := range w.workers {
			all.Go(func() { w.work(p, j) })
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	select {
	case <-time.After(w.faultPhase):
	case <-done:
	}
	close(calm)
	w.plan.Stop()
	weather.Wait()
	w.log.note("calm")
	tooLong := time.After(time.Duration(w.clients*w.workers*w.rounds+20) * 4 * w.timeout)
	for left := true; left; {
		select {
		case <-done:
			left = false
		case <-time.After(w.timeout):
			w.unblock()
		case <-tooLong:
			w.log.violation("somebody waits for ever:\n%s", srv.Tree())
			cancel()
			<-done
			left = false
		}
	}

	// At rest: nobody holds, nobody waits.
	time.Sleep(3 * w.timeout)
	synctest.Wait()
	w.checkAtRest()
	for i, p := range w.processes {
		if err := p.client().Close(); err != nil {
			w.log.violation("close of client %d: %v", i, err)
		}
	}
	if left := srv.Sessions(); len(left) > 0 && !w.noneConnected(left) {
		w.log.violation("sessions left: %v", left)
	}
}

// expiring tells sessions of clients that are gone, and will end by themselves.
func (w *world) noneConnected(ss []zktest.Session) bool {
	return !slices.ContainsFunc(ss, func(s zktest.Session) bool { return s.Connected })
}

// notes returns a Trace that notes everything.
func (w *world) logTrace(i int) *zkrecipes.Trace {
	note := func(what string) func(zkrecipes.TraceEvent) {
		return func(e zkrecipes.TraceEvent) {
			w.log.note("trace %d: %s 0x%x %s %s 0x%x ahead %d %v", i, what, e.Session, e.Path, e.Place, int64(e.Token), e.Ahead, e.Err)
		}
	}
	return &zkrecipes.Trace{
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

// nothingLeft: no children of a path at rest.
func (w *world) checkEmpty(path string) {
	if left := w.srv.Children(path); len(left) > 0 {
		w.log.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
	}
}

// identity is how the places of a client's life can be told.
func identity(i, life int) string { return fmt.Sprintf("client %d.%d", i, life) }

// bare connects with nothing but go-zookeeper.
func (w *world) rawConn() (*zk.Conn, func()) {
	conn, events, err := zk.Connect([]string{w.srv.Addr()}, w.timeout, zk.WithDialer(func(network, addr string, d time.Duration) (net.Conn, error) {
		return w.srv.Dial(network, addr, d)
	}), zk.WithLogger(noLogger{}), zk.WithLogInfo(false))
	if err != nil {
		w.log.violation("%v", err)
		return nil, func() {}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range events {
		}
	}()
	return conn, func() {
		conn.Close()
		<-drained
	}
}

type noLogger struct{}

func (noLogger) Printf(string, ...any) {}
