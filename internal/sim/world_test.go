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
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// workload is what one simulation adds to the world: what its workers do, and what
// must hold.
type workload interface {
	// onChange is called with every change that the server applies, in order.
	onChange(zktest.Change)
	// trace returns the Trace of client i.
	trace(i int) *zkrecipes.Trace
	// begin runs before any worker.
	begin()
	// startFaults starts faults beyond those of the network and the server's plan.
	// They end when stop is closed.
	startFaults(faults *sync.WaitGroup, stop <-chan struct{})
	// work is all that worker j of a process does.
	work(p *process, j int)
	// unblock is called now and then after the faults, and ends calls that rightly
	// wait.
	unblock()
	// checkAtRest is called when all workers are done.
	checkAtRest()
}

// world is one run: a server, its clients, and their faults.
type world struct {
	workload
	scenario
	srv       *zktest.Server
	plan      *zktest.Plan
	log       *runLog
	events    *eventCounts
	processes []*process
	pairsMu   sync.Mutex
	pairs     []*harness.Pairs // of each life of a process
	ctx       context.Context  // canceled when the run is given up
}

// run runs the seed. It must be called in a synctest bubble of its own.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx = tuning.WithLastNumber(tuning.WithSegment(ctx, w.segment), w.lastNumber)
	w.ctx = tuning.WithIdleLine(tuning.WithLongLine(w.ctx, w.longLine), w.idleLine)
	w.log, w.events = newRunLog(), newEventCounts()
	if err := w.startServer(); err != nil {
		w.log.violation("%v", err)
		return
	}
	defer func() {
		w.srv.Close()
		time.Sleep(2 * max(w.latency, w.distance)) // the last bytes arrive
	}()
	if err := w.startProcesses(); err != nil {
		w.log.violation("dial: %v", err)
		return
	}
	w.begin()

	stop := make(chan struct{}) // closed when the phase of faults ends
	var faults sync.WaitGroup
	for _, p := range w.processes {
		faults.Go(func() { w.disturbNetwork(p, stop) })
	}
	w.startFaults(&faults, stop)
	done := w.startWorkers()
	select {
	case <-time.After(w.faultPhase):
	case <-done:
	}
	close(stop)
	w.plan.Stop()
	faults.Wait()
	w.log.note("the faults are over")
	w.awaitWorkers(done, cancel)

	// At rest, nothing is held and nothing waits.
	time.Sleep(3 * w.timeout)
	synctest.Wait()
	w.checkAccounts()
	w.checkAtRest()
	w.closeClients()
	synctest.Wait()
	for _, pairs := range w.pairs {
		pairs.Rest()
	}
}

func (w *world) startServer() (err error) {
	w.plan = w.serverFaults()
	opts := []zktest.Option{
		zktest.InMemory(), zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Minute),
		zktest.ContainerCheckInterval(3 * time.Second), zktest.WithPlan(w.plan), zktest.OnChange(w.onChange),
	}
	if w.skipACL {
		opts = append(opts, zktest.SkipACL())
	}
	w.srv, err = zktest.Start(opts...)
	return err
}

func (w *world) startProcesses() error {
	for i := range w.clients {
		p := newProcess(w, i)
		if err := p.start(); err != nil {
			return err
		}
		w.processes = append(w.processes, p)
	}
	return nil
}

// startWorkers returns a channel that is closed when all workers are done.
func (w *world) startWorkers() <-chan struct{} {
	var workers sync.WaitGroup
	for _, p := range w.processes {
		for j := range w.workers {
			workers.Go(func() { w.work(p, j) })
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); workers.Wait() }()
	return done
}

// awaitWorkers waits until all workers are done, and gives the run up if that
// takes too long.
func (w *world) awaitWorkers(done <-chan struct{}, giveUp context.CancelFunc) {
	tooLong := time.After(time.Duration(w.clients*w.workers*w.rounds+20) * 4 * w.timeout)
	for {
		select {
		case <-done:
			return
		case <-time.After(w.timeout):
			w.unblock()
		case <-tooLong:
			w.log.violation("a worker waits forever:\n%s", w.srv.Tree())
			giveUp()
			<-done
			return
		}
	}
}

func (w *world) closeClients() {
	for i, p := range w.processes {
		if err := p.client().Close(); err != nil {
			w.log.violation("close of client %d: %v", i, err)
		}
	}
	// Sessions of killed clients are still there until they expire.
	connected := func(s zktest.Session) bool { return s.Connected }
	if left := w.srv.Sessions(); slices.ContainsFunc(left, connected) {
		w.log.violation("sessions left behind: %v", left)
	}
}

// checkEmpty checks that a znode has no children.
func (w *world) checkEmpty(path string) {
	if left := w.srv.Children(path); len(left) > 0 {
		w.log.violation("%s: left behind: %v\n%s", path, left, w.srv.Tree())
	}
}

// identity is the Identity of client i in one of its lives. It tells apart what the
// lives left on the server.
func identity(i, life int) string { return fmt.Sprintf("client %d.%d", i, life) }

// rawConn returns a connection of go-zookeeper, without the library, and a function
// that closes it.
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
