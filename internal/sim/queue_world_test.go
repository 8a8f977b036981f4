package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// queueWorld is the workload of Queue: one queue, the queue of its dead letters, and one
// into which some of its items are moved.
type queueWorld struct {
	*waitWorld
	path          string
	observer      *queueObserver
	roles         []string
	maxLen        int
	someUnbounded bool // some producers put without MaxLen
	deletesQueue  bool // the operator deletes the whole queue
	bursts        bool // producers put without a pause, and now and then many items

	mu         sync.Mutex
	rng        *rand.Rand // for what consumers do
	producers  int        // that are not done
	puts       []*putCall
	deliveries []*delivery
	removals   []*removeCall
}

var queueEvents = []string{
	"canceled at a step", "put", "batch put", "put refused", "put uncertain", "put uncertain, but done", "canceled", "evicted",
	"acked", "acked with an effect", "ack uncertain", "caller's operation failed", "nacked", "lost",
	"handler failed", "handler panicked", "several items taken", "item taken by TryTake", "delivered again", "dead letter", "segment sealed", "segments filled by one put",
	"flag deleted", "claim deleted", "place deleted", "place written to", "queue deleted", "listed",
	"moved on", "redriven", "buried", "buried while a consumer had it", "removed", "purged", "failed for good",
	"segments deleted", "data set on a segment", "free item deleted", "item marked as done",
}

func newQueueWorld(seed uint64) *world {
	const create, check, set, del = "create", "check", "setData", "delete"
	shapes := func(ops ...string) string { return "multi(" + strings.Join(ops, ",") + ")" }
	g, r := newWaitWorld(seed, fixed(
		shapes(create, check, create), shapes(set, check, create), shapes(set, set, create, create),
		shapes(set, check, create, set, del),
		shapes(create, create, set, del), shapes(del, del, del), shapes(del, del),
		shapes(create, del, del, del, create), shapes(set, del, del, del, create),
		shapes(del, del, del, create, set), shapes(del, del, del, check, create), shapes(create, set),
		shapes(del, del, create, create), shapes(set, del, del, create, create, create), shapes(set, check, create, del, create),
		shapes(set, del, del, del, check, create), shapes(set, del, del, del, set, create, create),
		shapes(set, del, check, create), shapes(set, del, set, create, create), shapes(set, del, check, create, set, del),
		shapes(set, del), shapes(set, del, del), shapes(set, create, create),
		"getData", "getChildren2", "sync",
	), "/app/queues/a")
	w := &queueWorld{waitWorld: g, path: g.paths[0], rng: rand.New(rand.NewPCG(seed, 7000))}
	w.observer = newQueueObserver(g, w.path)
	w.lags = true // a client may see items that were taken long ago
	w.segment = int64(1 + r.IntN(9))
	w.observer.maxAttempts = []int{-1, 2, 3, 16}[r.IntN(4)]
	if r.IntN(2) == 0 {
		w.maxLen = 1 + r.IntN(6)
		if w.someUnbounded = r.IntN(3) == 0; !w.someUnbounded {
			w.observer.bound = w.maxLen
		}
	}
	if more := rand.New(rand.NewPCG(seed, 9000)); more.IntN(3) == 0 {
		w.bursts = true
		w.distance = time.Duration(1+more.IntN(150)) * time.Millisecond
		w.segment = int64(1 + more.IntN(4))
	}
	w.deletesQueue = w.operator && r.IntN(3) == 0
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
	w.operated(w.runOperator())
	return w.with(w)
}

func (w *queueWorld) onChange(c zktest.Change) {
	w.observer.onChange(c)
	if strings.HasPrefix(c.Path, w.path) {
		w.faultAtStep(c)
	}
}

// options returns options for the queue, in part random.
func (w *queueWorld) options() *zkrecipes.QueueOptions {
	return &zkrecipes.QueueOptions{
		MaxAttempts: w.observer.maxAttempts, Workers: 1 + w.intN(2),
		Backoff: func(int) time.Duration { return time.Duration(w.intN(int(time.Second))) },
	}
}

// next returns the queue into which consumers move items.
func (w *queueWorld) next(c *zkrecipes.Client) *zkrecipes.Queue {
	return zkrecipes.NewQueue(c, w.path+"-next", &zkrecipes.QueueOptions{MaxAttempts: -1})
}

// intN returns a random number in [0, n).
func (w *queueWorld) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *queueWorld) begin() {
	conn, done := w.rawConn()
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
	w.waitWorld.begin()
}

// unblock cancels the pending calls once all items are gone and no more will come.
func (w *queueWorld) unblock() {
	w.mu.Lock()
	producers := w.producers
	w.mu.Unlock()
	if producers > 0 || w.observer.remaining(w.observer.queue) > 0 {
		return
	}
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	w.cancelAll()
}

func (w *queueWorld) faultsAreOver() bool {
	w.waitWorld.mu.Lock()
	defer w.waitWorld.mu.Unlock()
	return w.faultsOver
}

func (w *queueWorld) isExpected(ctx context.Context, l life, err error) bool {
	return w.isExplained(ctx, l, err)
}
