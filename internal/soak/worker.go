package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// Params is what a worker process is started with.
type Params struct {
	Process, Life int
	Servers       []string
	Start         time.Time // of the run, without a monotonic reading: it is the same in all processes
	Seed          uint64
	Members       int  // of each barrier
	Operator      bool // this process opens and shuts the gate
}

// Report is a line that a worker process writes. At most one of the fields after At is set.
type Report struct {
	At      time.Duration `json:"at"` // when it was written
	Event   *judge.Event  `json:"event,omitempty"`
	Figures *Figures      `json:"figures,omitempty"`
	Rested  bool          `json:"rested,omitempty"` // the workers have ended
}

// Figures are what a process uses.
type Figures struct {
	Goroutines, Before int // Before: when it had not dialed yet
	Heap               uint64
	Sessions           int
	Last               bool // the client is closed
}

// process is a worker process: clients, and goroutines that use all recipes.
type process struct {
	Params
	*link                    // with which most of them work
	light    *link           // which has one place at a time, so that it often has none
	ctx      context.Context // of the workers
	end      <-chan struct{} // closed when the run ends, or the process was told to
	finish   chan struct{}   // closed when nothing more is put
	sessions atomic.Int32
	before   int

	mu  sync.Mutex
	out *json.Encoder
}

// link is a Client, and the server that it is connected to.
type link struct {
	client *zkrecipes.Client
	server atomic.Pointer[string]
}

// runWorker works until its standard input ends, or it gets SIGTERM. The line "finish" in it says
// that the producers are to stop, and "rest" that all workers are.
func runWorker(text string) error {
	p := &process{out: json.NewEncoder(os.Stdout), finish: make(chan struct{})}
	if err := json.Unmarshal([]byte(text), &p.Params); err != nil {
		return fmt.Errorf("a worker is started by the soak, not by hand: %w", err)
	}
	running, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	p.before = runtime.NumGoroutine() - 1 // which has ended, like the one below, when p.settled counts
	ctx, stop := context.WithCancel(running)
	defer stop()
	p.ctx, p.end = ctx, running.Done()
	go func() {
		input := bufio.NewScanner(os.Stdin)
		for input.Scan() {
			switch input.Text() {
			case "finish":
				close(p.finish)
			case "rest":
				stop()
			}
		}
		end()
	}()
	if err := p.run(); err != nil && ctx.Err() == nil {
		return err
	}
	end()
	p.settled()
	return nil
}

// run connects the clients, works until the run ends, and closes them.
func (p *process) run() (err error) {
	if p.link, err = p.connect(); err != nil {
		return err
	}
	defer p.link.close()
	if p.light, err = p.connect(); err != nil {
		return err
	}
	defer p.light.close()
	var all sync.WaitGroup
	for name, work := range p.work() {
		w := &worker{process: p, link: p.link, name: name, rand: p.source(name)}
		all.Go(func() { w.loop(work) })
	}
	w := &worker{process: p, link: p.light, name: "churn", rand: p.source("churn")}
	all.Go(func() { w.loop((*worker).churn) })
	all.Go(func() { p.every(5*time.Second, func() Report { return Report{Figures: p.use()} }) })
	all.Go(func() { p.every(500*time.Millisecond, func() Report { return Report{} }) }) // all that has happened is reported
	all.Wait()
	p.report(Report{Rested: true})
	<-p.end
	return nil
}

func (p *process) connect() (*link, error) {
	l := &link{}
	c, err := zkrecipes.Dial(p.ctx, p.Servers, &zkrecipes.Options{
		SessionTimeout: timeout, Prefix: root, Identity: fmt.Sprintf("%d.%d", p.Process, p.Life),
		Dialer: l.dial, Trace: &zkrecipes.Trace{Session: p.session},
	})
	l.client = c
	return l, err
}

func (l *link) close() {
	if err := l.client.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "close: %v\n", err)
	}
}

// work returns what the goroutines of a process do, again and again.
func (p *process) work() map[string]func(*worker) {
	lock := zkrecipes.NewMutex(p.client, lockKey)
	rw := zkrecipes.NewRWLock(p.client, rwKey)
	free := zkrecipes.NewQueue(p.client, queueKey, &zkrecipes.QueueOptions{MaxAttempts: -1})
	bounded := zkrecipes.NewQueue(p.client, boundedKey, &zkrecipes.QueueOptions{MaxAttempts: -1, MaxLen: 10, Workers: 2})
	failing := zkrecipes.NewQueue(p.client, failingKey, &zkrecipes.QueueOptions{
		MaxAttempts: failingAttempts, DeadLetter: deadKey, Workers: 2,
		MaxLen:  200, // what fails is taken three times: without a bound its producers get ahead
		Backoff: func(int) time.Duration { return 20 * time.Millisecond },
	})
	gate := zkrecipes.NewGate(p.client, gateKey)
	group := zkrecipes.NewGroup(p.client, groupKey)
	kept := zkrecipes.NewMutex(p.client, keptKey, zkrecipes.KeepFor(200*time.Millisecond))
	semaphore := zkrecipes.NewSemaphore(p.client, semaphoreKey, slots)
	election := zkrecipes.NewElection(p.client, electionKey)
	counter := zkrecipes.NewCounter(p.client, counterKey)
	var several []*zkrecipes.Mutex
	for _, key := range severalKeys {
		several = append(several, zkrecipes.NewMutex(p.client, key))
	}
	work := map[string]func(*worker){
		"barrier":   func(w *worker) { w.passBarrier(zkrecipes.NewBarrier(p.client, barrierKey, p.Members-1), barrierKey) },
		"double":    func(w *worker) { w.visit(zkrecipes.NewDoubleBarrier(p.client, doubleKey, p.Members), doubleKey) },
		"gate":      func(w *worker) { w.passGate(gate) },
		"put":       func(w *worker) { w.put(free, queueKey, "-") },
		"put-bound": func(w *worker) { w.put(bounded, boundedKey, "-") },
		"put-fail":  func(w *worker) { w.put(failing, failingKey, [2]string{"-", badItem}[w.n%2]) },
		"serve": func(w *worker) {
			w.serve(bounded, boundedKey, func(h *worker, it *zkrecipes.Item) error { h.handle(it, boundedKey); return nil })
		},
		"serve-fail": func(w *worker) { w.serve(failing, failingKey, (*worker).try) },
		"bury":       func(w *worker) { w.bury(failing.DeadLetters()) },
		"write":      func(w *worker) { w.lock(rw.Lock, rw, rwKey) },
		"member":     func(w *worker) { w.join(group) },
		"observe":    func(w *worker) { w.observe(election) },
		"shards":     (*worker).serveShards,
		"watch":      func(w *worker) { w.watch(p.client) },
		"all":        func(w *worker) { w.lockAll(several) },
		"not-kept":   func(w *worker) { w.lock(zkrecipes.NewMutex(p.client, keptKey).Lock, nil, keptKey) },
	}
	for i, m := range several {
		work[fmt.Sprint("one-", i)] = func(w *worker) { w.lock(m.Lock, nil, m.Path()) }
	}
	for i := range 3 {
		work[fmt.Sprint("lock-", i)] = func(w *worker) { w.lock(lock.Lock, nil, lockKey) }
		work[fmt.Sprint("read-", i)] = func(w *worker) { w.read(rw, rwKey) }
	}
	for i := range 2 {
		work[fmt.Sprint("take-", i)] = func(w *worker) { w.take(w.ctx, free, queueKey) }
		work[fmt.Sprint("kept-", i)] = func(w *worker) { w.lock(kept.Lock, nil, keptKey) }
		work[fmt.Sprint("slots-", i)] = func(w *worker) { w.useSlots(semaphore) }
		work[fmt.Sprint("add-", i)] = func(w *worker) { w.add(counter) }
		work[fmt.Sprint("campaign-", i)] = func(w *worker) { w.campaign(election) }
	}
	if p.Operator {
		work["operator"] = func(w *worker) { w.operate(gate) }
	}
	if p.Process < p.Members { // the last one may be killed before it has reported what it moved
		work["redrive"] = func(w *worker) { w.redrive(failing) }
	}
	return work
}

// source returns random numbers that the seed and the worker decide.
func (p *process) source(name string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, p.Process, p.Life, name)
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

// dial remembers the server of the connection.
func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		l.server.Store(&addr)
	}
	return nc, err
}

func (p *process) session(e zkrecipes.TraceSession) {
	if e.State == zkrecipes.SessionExpired {
		p.sessions.Add(1)
		p.tell(judge.Event{Kind: judge.Expired, At: p.now(), Process: p.Process, Life: p.Life})
	}
}

// now returns the time since the beginning of the run.
func (p *process) now() time.Duration { return time.Since(p.Start) }

func (p *process) tell(e judge.Event) { p.report(Report{Event: &e}) }

// report writes a line at once: the process may be killed at any time, and a line that
// is shorter than a pipe's buffer is never torn apart.
func (p *process) report(r Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.At = p.now()
	if p.out.Encode(r) != nil {
		os.Exit(1) // the parent has died
	}
}

// every reports something again and again.
func (p *process) every(d time.Duration, what func() Report) {
	for p.ctx.Err() == nil {
		pause(p.ctx, d)
		p.report(what())
	}
}

// use returns what the process uses.
func (p *process) use() *Figures {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return &Figures{Goroutines: runtime.NumGoroutine(), Before: p.before, Heap: memory.HeapAlloc, Sessions: int(p.sessions.Load())}
}

// settled reports the figures once the goroutines of the closed clients have ended, and prints what
// those do that are left.
func (p *process) settled() {
	for range 200 {
		if runtime.NumGoroutine() <= p.before {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	goroutines := runtime.NumGoroutine() // after the collection, the one that runs finalizers may count
	if goroutines > p.before {
		var all bytes.Buffer // in one piece
		fmt.Fprintf(&all, "goroutines of process %d.%d:\n", p.Process, p.Life)
		pprof.Lookup("goroutine").WriteTo(&all, 2)
		os.Stderr.Write(all.Bytes())
	}
	runtime.GC()
	f := p.use()
	f.Goroutines, f.Last = goroutines, true
	p.report(Report{Figures: f})
}

// worker is a goroutine of a process.
type worker struct {
	*process
	*link // one of the process's
	name  string
	rand  *rand.Rand
	n     int // calls
}

func (w *worker) loop(work func(*worker)) {
	for w.ctx.Err() == nil {
		work(w)
		w.n++
	}
}

// tell reports an event of this worker.
func (w *worker) tell(e judge.Event) {
	if e.At == 0 {
		e.At = w.now()
	}
	e.Process, e.Life, e.Worker = w.Process, w.Life, w.name
	w.process.tell(e)
}

// finished reports whether nothing more is to be put.
func (w *worker) finished() bool {
	select {
	case <-w.finish:
		return true
	default:
		return false
	}
}

// attempt makes a call, and reports its beginning, and that it was served or has failed.
func (w *worker) attempt(e judge.Event, call func(e *judge.Event) error) bool {
	e.Kind = judge.Begin
	w.tell(e)
	if err := call(&e); err != nil {
		w.failed(e, err)
		return false
	}
	e.Kind = judge.Granted
	w.tell(e)
	return true
}

// failed reports that a call has failed, and with which error unless that is one of
// those that faults explain.
func (w *worker) failed(e judge.Event, err error, expected ...error) {
	e.Kind, e.Uncertain, e.Err = judge.Failed, errors.Is(err, zkrecipes.ErrUncertain), err.Error()
	w.tell(e)
	w.check(e.Key, err, expected...)
}

// check reports an error that no fault explains.
func (w *worker) check(key string, err error, expected ...error) {
	w.checkSince(0, key, err, expected...)
}

// checkSince is like check for an error of a call that relies on what was read or written then.
func (w *worker) checkSince(read time.Duration, key string, err error, expected ...error) {
	if err == nil || w.ctx.Err() != nil {
		return
	}
	for _, e := range append(expected, zkrecipes.ErrUncertain, zkrecipes.ErrLost) {
		if errors.Is(err, e) {
			return
		}
	}
	w.tell(judge.Event{Kind: judge.Strange, Key: key, From: read, Err: err.Error()})
}

// sleep waits for a random time.
func (w *worker) sleep(ctx context.Context, least, most time.Duration) {
	pause(ctx, least+time.Duration(w.rand.Int64N(int64(most-least)+1)))
}

// oneIn is true once in n times.
func (w *worker) oneIn(n int) bool { return w.rand.IntN(n) == 0 }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
