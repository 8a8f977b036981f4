package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// queueWorld is a world of one queue, and the one of its dead letters.
type queueWorld struct {
	*gathering
	path   string
	seen   *items
	roles  []string
	maxLen int
	mixed  bool // there are puts without a bound, too
	wipes  bool // the operator deletes the queue

	mu         sync.Mutex
	roll       *rand.Rand // what consumers do
	producers  int        // that are not done
	puts       []*put
	deliveries []*delivery
}

var queueBefalls = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step",
	"put", "batch put", "put refused", "put in doubt", "put in doubt, and there", "cancelled", "evicted",
	"acked", "acked with an effect", "ack in doubt", "own operation failed", "given back", "lost",
	"handler failed", "handler panicked", "delivered again", "dead letter", "segment sealed",
	"flag deleted", "claim deleted", "place deleted", "queue deleted", "listed",
}

func newQueueWorld(seed uint64) *world {
	const create, check, set, del = "create", "check", "setData", "delete"
	shapes := func(ops ...string) string { return "multi(" + strings.Join(ops, ",") + ")" }
	g, r := gather(seed, func(int) []string {
		return []string{
			shapes(create, check, create), shapes(set, check, create), shapes(set, set, create, create),
			shapes(set, check, create, set, del),
			shapes(create, create, set, del), shapes(del, del, del), shapes(del, del),
			shapes(create, del, del, del, create), shapes(set, del, del, del, create),
			shapes(del, del, del, create, set), shapes(del, del, del, check, create), shapes(create, set),
			"getData", "getChildren2", "sync",
		}
	}, "/app/queues/a")
	w := &queueWorld{gathering: g, path: g.paths[0], roll: rand.New(rand.NewPCG(seed, 7000))}
	w.subject, w.seen = w, newItems(g, w.path)
	w.segment = int64(1 + r.IntN(9))
	w.seen.maxAttempts = []int{-1, 2, 3, 16}[r.IntN(4)]
	if r.IntN(2) == 0 {
		w.maxLen = 1 + r.IntN(6)
		if w.mixed = r.IntN(3) == 0; !w.mixed {
			w.seen.bound = w.maxLen
		}
	}
	w.wipes = w.operator && r.IntN(3) == 0
	for i := range w.clients * w.workers {
		role := []string{"producer", "consumer"}[r.IntN(2)]
		if i < 2 {
			role = []string{"consumer", "producer"}[i]
		}
		if role == "producer" {
			w.producers++
		}
		w.roles = append(w.roles, role)
	}
	r.Shuffle(len(w.roles), func(i, j int) { w.roles[i], w.roles[j] = w.roles[j], w.roles[i] })
	return w.world
}

func (w *queueWorld) applied(c zktest.Change) {
	w.seen.applied(c)
	if strings.HasPrefix(c.Path, w.path) {
		w.strike(c)
	}
}

// options are those that the queue is used with.
func (w *queueWorld) options() *zkrecipes.QueueOptions {
	return &zkrecipes.QueueOptions{
		MaxAttempts: w.seen.maxAttempts, Workers: 1 + w.chance(2),
		Backoff: func(int) time.Duration { return time.Duration(w.chance(int(time.Second))) },
	}
}

// chance returns a number from 0 to n-1.
func (w *queueWorld) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roll.IntN(n)
}

func (w *queueWorld) begin() {
	conn, done := w.bare()
	defer done()
	for _, path := range []string{"/app", effects} {
		for {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			if err == nil || errors.Is(err, zk.ErrNodeExists) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	w.gathering.begin()
	// Who is moved to a server that lags may see what was taken long ago. (There
	// must have been such a fault at the start.)
	lags := func(f zktest.Fault) bool { return f.Do == zktest.Lag }
	if r := rand.New(rand.NewPCG(w.seed, 8000)); r.IntN(2) == 0 && slices.ContainsFunc(w.plan.Faults(), lags) {
		w.plan.Add(zktest.Fault{Do: zktest.Lag, Times: -1, Behind: 1 + r.IntN(30), For: time.Duration(r.Int64N(int64(w.timeout)))})
	}
}

func (w *queueWorld) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.gathering.befall(weather, calm)
	if w.operator {
		weather.Go(func() { w.operate(calm) })
	}
}

// operate deletes claims, or one half of them, places in the lines, and now and
// then the whole queue.
func (w *queueWorld) operate(calm <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.seed, 2000))
	conn, done := w.bare()
	defer done()
	remove := func(what, path string) {
		w.gathering.mu.Lock()
		w.evicted[path] = true
		w.gathering.mu.Unlock()
		err := conn.Delete(path, -1)
		w.h.note("operator: delete %s: %v", path, err)
		if err == nil {
			w.befell.add(what)
		}
	}
	for {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(4 * time.Second)))):
		case <-calm:
			return
		}
		what := r.IntN(8)
		if what < 2 {
			line := w.path + []string{"/line", "/room"}[r.IntN(2)]
			if places := w.srv.Children(line); len(places) > 0 {
				remove("place deleted", line+"/"+places[r.IntN(len(places))])
			}
			continue
		}
		if what == 2 && w.wipes {
			w.wipe(conn)
			continue
		}
		flags := w.flags()
		if len(flags) == 0 {
			continue
		}
		flag := flags[r.IntN(len(flags))]
		item, _, _ := strings.Cut(flag, ".")
		if what != 7 {
			remove("flag deleted", flag)
		}
		if what > 4 {
			remove("claim deleted", item+"/c")
		}
	}
}

func (w *queueWorld) flags() (flags []string) {
	for _, segment := range w.srv.Children(w.path + "/s") {
		for _, name := range w.srv.Children(w.path + "/s/" + segment) {
			if strings.Contains(name, ".") {
				flags = append(flags, w.path+"/s/"+segment+"/"+name)
			}
		}
	}
	return flags
}

// wipe deletes the queue with all below it, as tools do: one znode after the
// other, the leaves first.
func (w *queueWorld) wipe(conn *zk.Conn) {
	w.seen.wipe(true)
	var remove func(path string)
	remove = func(path string) {
		for _, name := range w.srv.Children(path) {
			remove(path + "/" + name)
		}
		w.gathering.mu.Lock()
		w.evicted[path] = true
		w.gathering.mu.Unlock()
		_ = conn.Delete(path, -1)
	}
	w.h.note("operator: delete %s", w.path)
	remove(w.path)
	w.h.note("operator: done")
	w.seen.wipe(false)
	w.befell.add("queue deleted")
}

func (b *items) wipe(begin bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wiping, b.wiped = begin, b.h.now()
}

// settle ends the waits for items once all were consumed and none will come.
func (w *queueWorld) settle() {
	w.mu.Lock()
	producers := w.producers
	w.mu.Unlock()
	if producers > 0 || w.seen.left(w.seen.queue) > 0 {
		return
	}
	w.gathering.mu.Lock()
	defer w.gathering.mu.Unlock()
	w.over = true
	for s := range w.waiting {
		s.cancel()
	}
}

func (w *queueWorld) isCalm() bool {
	w.gathering.mu.Lock()
	defer w.gathering.mu.Unlock()
	return w.calm
}

// mayFail tells errors that a worker has to expect.
func (w *queueWorld) mayFail(ctx context.Context, p *process, life int, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.befell.add("cancelled")
		return true
	case errors.Is(err, zkrecipes.ErrEvicted):
		w.befell.add("evicted")
		return w.operator
	}
	return errors.Is(err, zkrecipes.ErrClosed) && p.ended(life)
}

// rest takes what is left, in order, uses the queue once more, and sees what
// there is then.
func (w *queueWorld) rest() {
	ctx, cancel := context.WithTimeout(w.ctx, 50*w.timeout)
	defer cancel()
	p := w.processes[0]
	c, life := p.alive()
	as := identity(p.i, life)
	q := zkrecipes.NewQueue(c, w.path, &zkrecipes.QueueOptions{MaxAttempts: -1})
	w.drain(ctx, q, as, w.seen.queue)
	w.again(ctx, q, as)
	w.drain(ctx, zkrecipes.NewQueue(c, w.path+"-dead", &zkrecipes.QueueOptions{MaxAttempts: -1}), as, w.seen.dead)
	time.Sleep(w.timeout)
	for _, path := range []string{w.path, w.path + "-dead"} {
		segments := w.srv.Children(path + "/s")
		for _, segment := range segments {
			w.nothingLeft(path + "/s/" + segment)
		}
		w.nothingLeft(path + "/line")
		w.nothingLeft(path + "/room")
		if len(segments) != 1 && (path == w.path || len(segments) > 0) {
			w.h.violation("%s: segments left: %v\n%s", path, segments, w.srv.Tree())
		}
	}
	w.judge()
	for _, p := range w.processes {
		p.client().Close()
	}
	w.nothingLeft(w.path + "/puts")
}

// drain takes what there is: items come in the order in which they were put.
func (w *queueWorld) drain(ctx context.Context, q *zkrecipes.Queue, as string, from *shelf) {
	n := 0
	for ; w.seen.left(from) > 0; n++ {
		it, err := q.Take(ctx)
		if err != nil {
			w.h.violation("at rest: %v\n%s", err, w.srv.Tree())
			return
		}
		d := w.handed(it, from, as)
		if first := w.seen.first(from); first != d.claim.of {
			w.h.violation("at rest: %s is delivered, and %s is before it", it.ID, first.id)
		}
		if err := w.ack(ctx, d); err != nil {
			w.h.violation("at rest: %v", err)
			return
		}
	}
	if n == 0 && from == w.seen.dead {
		return
	}
	w.empty(q)
}

// empty looks into the queue once more, so that segments go.
func (w *queueWorld) empty(q *zkrecipes.Queue) {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	if it, err := q.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		w.h.violation("at rest: %v, %v", it, err)
	}
}

// first returns the first item that is there.
func (b *items) first(q *shelf) *item {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(q.order, func(it *item) bool { return it.ended == 0 })
	return q.order[i]
}

// again puts items, gives the second of them back, and takes them.
func (w *queueWorld) again(ctx context.Context, q *zkrecipes.Queue, as string) {
	w.seen.mu.Lock()
	w.seen.bound = 0
	w.seen.mu.Unlock()
	a := &put{data: []string{"again 1", "again 2", "again 3"}}
	if w.put(ctx, q, a); a.err != nil {
		w.h.violation("at rest: %v\n%s", a.err, w.srv.Tree())
		return
	}
	var got []string
	for i := range 4 {
		it, err := q.Take(ctx)
		if err != nil {
			w.h.violation("at rest: %v\n%s", err, w.srv.Tree())
			return
		}
		got = append(got, string(it.Data))
		d := w.handed(it, w.seen.queue, as)
		if i == 1 {
			err = it.Nack(ctx)
		} else {
			err = w.ack(ctx, d)
		}
		if err != nil {
			w.h.violation("at rest: %v", err)
		}
	}
	if want := []string{"again 1", "again 2", "again 2", "again 3"}; !slices.Equal(got, want) {
		w.h.violation("at rest: %q, and not %q", got, want)
	}
	w.empty(q)
}
