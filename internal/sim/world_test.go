package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

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

func newScenario(seed uint64) scenario {
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
		sc.foreign = [][]string{
			{"_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-"},                           // Curator's
			{"_c_0123456789abcdeffedcba9876543210-lock-"},                               // go-zookeeper's
			{"fedcba98765432100123456789abcdef__lock__"},                                // kazoo's
			{"fedcba98765432100123456789abcdef__rlock__"},                               // kazoo's reader
			{"fedcba98765432100123456789abcdef__lock__", "_c_1f2e3d4c-5b6a-4789-lock-"}, // two
		}[r.IntN(5)]
	}
	return sc
}

// world is a server, its clients, and what befalls them.
type world struct {
	scenario
	srv     *zktest.Server
	plan    *zktest.Plan
	h       *history
	lines   lines
	ctx     context.Context // ends when the run is given up
	mu      sync.Mutex
	holding map[*zkrecipes.Lease]string // leases that are out, and not being released
}

// simulate runs a seed in a bubble of its own and returns what went wrong.
func (w *world) simulate() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx, w.h, w.holding = ctx, newHistory(), map[*zkrecipes.Lease]string{}
	w.lines = lines{here: map[string]map[string]int64{}, was: map[string]bool{}}
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
	for _, lock := range w.locks {
		if left := srv.Children(lock); len(left) > 0 {
			w.h.violation("%s: left behind: %v\n%s", lock, left, srv.Tree())
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
		Queued: note("queued"), Granted: note("granted"), Released: note("released"), Lost: note("lost"),
		SessionUp: note("up"), SessionDown: note("down"),
	}
}

// nearTheEnd has the lines made, and then moves their counters.
func (w *world) nearTheEnd(c *zkrecipes.Client) {
	for i, lock := range w.locks {
		if err := zkrecipes.NewMutex(c, lock).Do(w.ctx, func(context.Context, *zkrecipes.Lease) error { return nil }); err != nil {
			w.h.violation("first use: %v", err)
		}
		at := []int32{math.MaxInt32 - 1_000_000 - 3, math.MaxInt32 - 2}[i%2]
		if err := w.srv.SetCounter(lock, at); err != nil {
			w.h.note("%v", err) // reaped by now
		}
	}
}

// work is one worker's life: take a lock, hold it, give it back.
func (w *world) work(i, j int, c *zkrecipes.Client) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*i+j)))
	who := 10*i + j
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		lock := w.locks[r.IntN(len(w.locks))]
		m := zkrecipes.NewMutex(c, lock)
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		how := r.IntN(10)
		switch {
		case how < 2:
			ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(4*time.Second))))
		case how < 3:
			ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
		}
		get := m.Lock
		if how == 9 {
			get = m.TryLock
		}
		called := w.h.now()
		l, err := get(ctx)
		if err != nil {
			cancel()
			w.h.note("worker %d: %v", who, err)
			if !w.mayFail(ctx, err) {
				w.h.violation("worker %d: %v", who, err)
			}
			if w.ctx.Err() != nil {
				return
			}
			continue
		}
		w.granted(who, lock, called, l)
		w.hold(r, who, lock, m, l)
		w.release(who, lock, called, l, r.IntN(8) == 0)
		cancel()
	}
}

// mayFail tells errors that a worker has to expect.
func (w *world) mayFail(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()),
		errors.Is(err, zkrecipes.ErrLocked),
		w.operator && errors.Is(err, zkrecipes.ErrEvicted),
		w.counter && errors.Is(err, zkrecipes.ErrExhausted):
		return true
	}
	return false
}

// granted checks what must be true at that moment.
func (w *world) granted(who int, lock string, called int64, l *zkrecipes.Lease) {
	w.h.note("worker %d: granted %s 0x%x", who, lock, int64(l.Token()))
	w.first(who, l.Check().Path)
	if err := l.Err(); err != nil && strings.Contains(err.Error(), "no answer from the servers") {
		w.h.violation("worker %d: granted 0x%x after the session's time: %v", who, int64(l.Token()), err)
	}
	w.mu.Lock()
	for other, name := range w.holding {
		if name == lock && other.Err() == nil && !w.forced && l.Err() == nil {
			w.h.violation("%s: worker %d is granted 0x%x while 0x%x holds", lock, who, int64(l.Token()), int64(other.Token()))
		}
	}
	w.holding[l] = lock
	w.mu.Unlock()
	w.h.add(entry{lock: lock, who: who, token: l.Token(), call: called, ret: w.h.now()})
}

// lines is what the server has applied to the lines: who stands there, and who
// was ever the first.
type lines struct {
	mu   sync.Mutex
	here map[string]map[string]int64 // numbers by line and name
	was  map[string]bool             // the first, by path
}

// applied is zktest.OnChange's.
func (l *lines) applied(c zktest.Change) {
	i := strings.LastIndexByte(c.Path, '/')
	line, name := c.Path[:i], c.Path[i+1:]
	number, ok := standing(name)
	if !ok || !c.Created && !c.Deleted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.here[line] == nil {
		l.here[line] = map[string]int64{}
	}
	if c.Created {
		l.here[line][name] = number
	} else {
		delete(l.here[line], name)
	}
	first := ""
	for name, n := range l.here[line] {
		if first == "" || n < l.here[line][first] || n == l.here[line][first] && name < first {
			first = name
		}
	}
	if first != "" {
		l.was[line+"/"+first] = true
	}
}

// standing returns the number in the name of a place, of this library or
// another.
func standing(name string) (number int64, ok bool) {
	for _, kind := range []string{"lock-", "__lock__", "__rlock__"} {
		if i := strings.LastIndex(name, kind); i >= 0 {
			number, err := strconv.ParseInt(name[i+len(kind):], 10, 64)
			return number, err == nil
		}
	}
	return 0, false
}

// first: by the server's word, which leaves no room for clocks, a place that is
// granted has been the first of its line.
func (w *world) first(who int, place string) {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	if !w.lines.was[place] {
		w.h.violation("worker %d is granted %s, which was never the first in line", who, place)
	}
	if n, _ := standing(place); n < 0 || n > math.MaxInt32-1_000_000 {
		w.h.violation("worker %d is granted %s, a number beyond the limit", who, place)
	}
}

// hold does what holders do.
func (w *world) hold(r *rand.Rand, who int, lock string, m *zkrecipes.Mutex, l *zkrecipes.Lease) {
	for range r.IntN(3) {
		switch r.IntN(5) {
		case 0:
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(2 * w.timeout))))
		case 2, 3:
			w.write(who, lock, l)
		case 4:
			w.reenter(who, m, l)
		}
	}
}

// write makes a write that is to be refused where the lock is not held.
func (w *world) write(who int, lock string, l *zkrecipes.Lease) {
	data := "/data-" + lock[strings.LastIndexByte(lock, '/')+1:]
	ctx, cancel := context.WithTimeout(w.ctx, 2*w.timeout)
	defer cancel()
	rs, err := l.Commit(ctx, &zk.SetDataRequest{Path: data, Data: strconv.AppendInt(nil, int64(l.Token()), 16), Version: -1})
	if errors.Is(err, zk.ErrNoNode) {
		_, err = l.Commit(ctx, &zk.CreateRequest{Path: data})
	} else if err == nil {
		w.h.commit(lock, committed{rs[0].Stat.Version, l.Token()})
	}
	w.h.note("worker %d: commit under 0x%x: %v", who, int64(l.Token()), err)
}

func (w *world) reenter(who int, m *zkrecipes.Mutex, l *zkrecipes.Lease) {
	lost := l.Err() != nil
	again, err := m.Lock(l.Reentrant(w.ctx))
	switch {
	case err == nil && lost:
		w.h.violation("worker %d: re-entered on a lost lease", who)
	case err == nil:
		if err := again.Release(); err != nil && l.Err() == nil {
			w.h.violation("worker %d: release of a re-entry: %v", who, err)
		}
	case l.Err() == nil:
		w.h.violation("worker %d: cannot re-enter: %v", who, err)
	}
}

func (w *world) release(who int, lock string, called int64, l *zkrecipes.Lease, twice bool) {
	w.mu.Lock()
	delete(w.holding, l)
	w.mu.Unlock()
	releasing := w.h.now()
	var other error
	var wg sync.WaitGroup
	if twice {
		wg.Go(func() { other = l.Release() })
	}
	err := l.Release()
	wg.Wait()
	w.h.note("worker %d: release of 0x%x: %v", who, int64(l.Token()), err)
	switch {
	case twice && !errors.Is(other, err) && other != err:
		w.h.violation("worker %d: the second release says %v, the first %v", who, other, err)
	case l.Err() == nil:
		w.h.violation("worker %d: held after its release", who)
	}
	if err != nil || w.forced { // it may have ended before
		releasing = called
	}
	if err != nil {
		if !errors.Is(err, zkrecipes.ErrLost) {
			w.h.violation("worker %d: release: %v", who, err)
		}
	}
	w.h.add(entry{lock: lock, who: who, ends: true, token: l.Token(), call: releasing, ret: w.h.now()})
}

// weatherOf is what befalls a client's network.
func (w *world) weatherOf(i int, n *network, calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, uint64(1000+i)))
	if r.IntN(3) == 0 && !n.sleepy {
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
		case what < 2 && !n.sleepy:
			w.h.note("network of client %d: cut", i)
			n.cut()
		default:
			d := time.Duration(r.Int64N(int64(2 * w.timeout)))
			w.h.note("network of client %d: frozen for %v", i, d)
			n.freeze()
			select {
			case <-time.After(d):
			case <-calm:
			}
			n.thaw()
			if n.sleepy {
				fired.add("client asleep")
			} else {
				fired.add("partition")
			}
		}
	}
}

// bare connects with nothing but go-zookeeper.
func (w *world) bare() (*zk.Conn, func()) {
	conn, events, err := zk.Connect([]string{w.srv.Addr()}, w.timeout, zk.WithDialer(func(network, addr string, d time.Duration) (net.Conn, error) {
		return w.srv.Dial(network, addr, d)
	}), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		w.h.violation("%v", err)
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

type silent struct{}

func (silent) Printf(string, ...any) {}

// operate deletes places, and writes to them where it can.
func (w *world) operate(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.bare()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(6 * time.Second)))):
		case <-calm:
			return
		}
		lock := w.locks[r.IntN(len(w.locks))]
		line := w.srv.Children(lock)
		if len(line) == 0 {
			continue
		}
		place := lock + "/" + line[r.IntN(len(line))]
		if w.operator && r.IntN(2) == 0 {
			w.h.note("operator: delete %s: %v", place, conn.Delete(place, -1))
			fired.add("place deleted")
			continue
		}
		_, err := conn.Set(place, []byte("forged"), -1)
		w.h.note("operator: set %s: %v", place, err)
		fired.add("signal forged")
	}
}

// foreigner takes and leaves places as another library does: it sets data on
// them, and deletes them whether it is first or not.
func (w *world) foreigner(i int, prefix string, calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, uint64(3000+i)))
	conn, done := w.bare()
	defer done()
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(5 * time.Second)))):
		case <-calm:
			return
		}
		lock := w.locks[r.IntN(len(w.locks))]
		place, err := conn.Create(lock+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			continue
		}
		w.h.note("foreigner: %s", place)
		fired.add("foreign place")
		for range 1 + r.IntN(3) {
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
			_, _ = conn.Set(place, []byte("whatever"), -1)
		}
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		for err := zk.ErrConnectionClosed; err != nil && err != zk.ErrNoNode; {
			err = conn.Delete(place, -1)
			if err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

// fired counts, over all runs, what befell.
var fired = &tally{n: map[string]int{}}

type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) add(what string) { t.addN(what, 1) }

func (t *tally) addN(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[what] += n
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.n)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, t.n[what]))
	}
	return strings.Join(parts, ", ")
}
