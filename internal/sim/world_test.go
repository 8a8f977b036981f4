package sim

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// scenario is what a seed decides at the start.
type scenario struct {
	seed           uint64
	timeout        time.Duration // of sessions
	clients        int
	workers        int           // of each client
	rounds         int           // of each worker, about
	faultPhase     time.Duration // how long faults happen
	operator       bool          // an operator deletes places, and sets their data
	setsData       bool          // an operator sets the data of places, and deletes none
	forcedExpiry   bool          // the server may expire the session of a live client
	pauses         bool          // the process of client 0 may stand still
	nearLimit      bool          // the sequence numbers of lines jump close to their limit
	lastNumber     int32         // the limit
	longLine       int           // a line with more children is long
	idleLine       time.Duration // clients delete lines that they have not used for so long
	noServerFaults bool          // the plan of the server is empty
	paths          []string
	restarts       bool          // processes close or kill their clients, and start again
	latency        time.Duration // of the network, maximum
	distance       time.Duration // the same for the last client, if it is far away
	segment        int64         // creates in a segment of a queue; 0 is the default

	version zktest.Version // that the server emulates
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
		forcedExpiry: oneIn(2), pauses: oneIn(6), nearLimit: oneIn(12), setsData: oneIn(3), noServerFaults: oneIn(4),
	}
	sc.operator = sc.forcedExpiry && oneIn(2)
	// A client that may stand still has no read deadline. A silent server would stop
	// it forever.
	sc.noServerFaults = sc.noServerFaults || sc.pauses
	sc.longLine = []int{0, 2, 16}[r.IntN(3)]
	// In a third of the seeds, lines are deleted right under those who join.
	sc.idleLine = []time.Duration{30 * time.Second, 3 * time.Second, 50 * time.Millisecond}[seed%3]
	// In a fifth of the seeds, the server emulates ZooKeeper 3.8: its events have no zxids.
	sc.version = zktest.ZooKeeper39
	if seed%5 == 0 {
		sc.version = zktest.ZooKeeper38
	}
	return sc, r
}

// workload is what one simulation adds to the world: what its workers do, and what
// must hold.
type workload interface {
	// onChange is called with every change that the server applies, in order.
	onChange(zktest.Change)
	// begin runs before any worker.
	begin()
	// faults returns faults beyond those of the network and the server's plan.
	faults() []fault
	// work is all that worker j of a process does.
	work(p *process, j int)
	// isExpected reports whether a worker has to expect an error of a call in a life.
	isExpected(ctx context.Context, l life, err error) bool
	// unblock is called now and then after the faults, and ends calls that rightly
	// wait.
	unblock()
	// checkAtRest is called when all workers are done.
	checkAtRest()
}

// fault goes on until stop is closed.
type fault = func(stop <-chan struct{})

// world is one run: a server, its clients, and their faults.
type world struct {
	workload
	scenario
	srv       *zktest.Server
	plan      *zktest.Plan
	log       *runLog
	events    *eventCounts
	processes []*process
	working   atomic.Int32 // workers that are not done
	pairsMu   sync.Mutex
	pairs     []*harness.Pairs // of each life of a process
	holdEnded func(err error)  // if set, called when the Trace tells so
	ctx       context.Context  // canceled when the run is given up
}

// with returns the world with that workload.
func (w *world) with(l workload) *world {
	w.workload = l
	return w
}

// run runs the seed. It must be called in a synctest bubble of its own.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx = tuning.With(ctx, func(c *tuning.Constants) {
		c.Segment, c.LastNumber, c.LongLine, c.IdleLine = w.segment, w.lastNumber, w.longLine, w.idleLine
	})
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
	for _, f := range w.faults() {
		faults.Go(func() { f(stop) })
	}
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
	w.srv, err = zktest.Start(
		zktest.InMemory(), zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Minute),
		zktest.ContainerCheckInterval(3*time.Second), zktest.WithPlan(w.plan), zktest.OnChange(w.onChange),
		zktest.Emulate(w.version),
	)
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
	w.working.Store(int32(w.clients * w.workers))
	for _, p := range w.processes {
		for j := range w.workers {
			workers.Go(func() {
				defer w.working.Add(-1)
				w.work(p, j)
			})
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
		if err := p.current().c.Close(); err != nil {
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

// stream returns the random numbers of one of those that draw some.
func (w *world) stream(number int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(number))) }

// worker is a worker, in a life of its process.
type worker struct {
	life
	number int
	r      *rand.Rand
}

// turns lets worker j of a process have n turns, each after a pause of at most so long.
func (w *world) turns(p *process, j, n int, pause time.Duration) iter.Seq2[int, *worker] {
	return func(yield func(int, *worker) bool) {
		r := w.stream(100 + 10*p.i + j)
		for i := range n {
			time.Sleep(time.Duration(r.Int64N(int64(pause))))
			if !yield(i, &worker{p.current(), 10*p.i + j, r}) {
				return
			}
		}
	}
}

// check checks that a worker had to expect an error.
func (w *world) check(ctx context.Context, by *worker, err error) {
	if err == nil {
		return
	}
	w.log.note("worker %d: %v", by.number, err)
	if !w.workload.isExpected(ctx, by.life, err) {
		w.log.violation("worker %d: %v", by.number, err)
	}
}

// rawConn returns a connection of go-zookeeper, without the library, and a function
// that closes it.
func (w *world) rawConn() (*zk.Conn, func()) {
	conn, events, err := zk.Connect([]string{w.srv.Addr()}, w.timeout,
		zk.WithDialer(w.srv.Dial), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		w.log.violation("%v", err)
		return nil, func() {}
	}
	return conn, func() {
		conn.Close()
		for range events { // until its goroutines have ended
		}
	}
}

// again calls f at random moments, each up to pause after the last call, until stop is
// closed.
func again(r *rand.Rand, pause time.Duration, stop <-chan struct{}, f func()) {
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(pause)))):
		case <-stop:
			return
		}
		f()
	}
}

// operate is like again, for what a client without the library does. stream is the number
// of its random numbers.
func (w *world) operate(stream int, pause time.Duration, f func(r *rand.Rand, conn *zk.Conn)) fault {
	return func(stop <-chan struct{}) {
		r := w.stream(stream)
		conn, done := w.rawConn()
		defer done()
		again(r, pause, stop, func() { f(r, conn) })
	}
}

// disturb is what an operator does to a place: it sets the data, and then deletes the place,
// which are two transactions, or does one of the two.
func (w *world) disturb(r *rand.Rand, conn *zk.Conn, place string) {
	what := r.IntN(3)
	if what < 2 {
		w.setAsOperator(conn, place)
	}
	if what > 0 {
		w.removeAsOperator(conn, place, "place deleted")
	}
}

// removeAsOperator deletes a place. If it stood, that counts as an event.
func (w *world) removeAsOperator(conn *zk.Conn, place, event string) {
	err := conn.Delete(place, -1)
	w.log.note("operator: delete %s: %v", place, err)
	if err == nil {
		w.events.add(event)
	}
}

// setAsOperator sets the data of a place as a release does. It releases nothing.
func (w *world) setAsOperator(conn *zk.Conn, place string) {
	_, err := conn.Set(place, []byte("released"), -1)
	w.log.note("operator: set %s: %v", place, err)
	if err == nil {
		w.events.add("place written to")
	}
}

// checkAccounts checks that each Client counts at least the ephemeral znodes that its session has
// on the server. It must be called at rest.
func (w *world) checkAccounts() {
	tree := w.srv.Tree()
	for i, p := range w.processes {
		status := p.current().c.Status()
		owner := fmt.Sprintf(" ephemeral=0x%x", status.Session)
		znodes, bytes := 0, 0
		for line := range strings.Lines(tree) {
			if strings.Contains(line, owner+" ") || strings.Contains(line, owner+"\n") {
				znodes++
				bytes += 4 + strings.IndexByte(line, ' ')
			}
		}
		if status.ZnodeBytes < bytes {
			w.log.violation("client %d counts %d znodes of %d bytes, and has %d of %d\n%s", i, status.Znodes, status.ZnodeBytes, znodes, bytes, tree)
		}
	}
}

// Texts of the library's errors, for distinctions that errors.Is cannot make. They
// have to change with the library.
const (
	textNoAnswer = "no answer from the servers"     // the session's timeout has passed
	textDeleted  = "deleted by somebody else"       // the place of a lease
	textMayOpen  = "may be opened with this member" // Wait was canceled while disconnected
)
