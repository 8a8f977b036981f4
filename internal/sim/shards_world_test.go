package sim

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// shardsWorld is the workload of Shards. Each process serves for the whole run, with one client after
// the other, and watches the owners. Workers serve for a while, too, list the owners, and change the
// number of shards.
type shardsWorld struct {
	*waitWorld
	observer *shardObserver
	holds    *holds
	settle   time.Duration
	named    bool // a process has the same id in all of its lives
	resizes  bool // workers change the number

	mu    sync.Mutex
	calm  bool                    // functions work until their contexts end
	live  map[*shardWork]struct{} // functions that work
	stops map[int]func()          // end each process's present Serve, and the next ones until the returned function is called
	pause map[int]chan struct{}   // closed when the process is to serve again
	seen  map[int][]zkrecipes.Owner
}

var shardsEvents = []string{
	"canceled at a step", "served", "moved", "lost", "closed", "left", "failed", "hung", "committed", "commit refused", "guest served", "listed", "watched again",
	"resized", "wrong size", "place deleted", "member deleted", "left in the end", "killed in the end",
}

func newShardsWorld(seed uint64) *world {
	g, r := newWaitWorld(seed, fixed(
		"create2", "setData", "delete", "multi(create,delete)", "multi(check,setData)",
		"multi(createContainer,create,delete)", "getData", "exists", "sync", "getChildren2",
	), "/app/shards")
	w := &shardsWorld{
		waitWorld: g, live: map[*shardWork]struct{}{}, stops: map[int]func(){}, pause: map[int]chan struct{}{}, seen: map[int][]zkrecipes.Owner{},
	}
	w.lags = true
	w.observer, w.holds = newShardObserver(w), newHolds(w.world, judge.Config{})
	w.sizes[w.path()] = 1 + r.IntN(12)
	w.settle = []time.Duration{time.Nanosecond, time.Second, 5 * time.Second}[r.IntN(3)]
	w.named, w.resizes = r.IntN(2) == 0, r.IntN(3) == 0
	w.operated(w.evictMembers("/members"), w.disturbShards())
	return w.with(w)
}

func (w *shardsWorld) onChange(c zktest.Change) {
	w.observer.onChange(c)
	if strings.HasPrefix(c.Path, w.path()) {
		w.faultAtStep(c)
	}
}

func (w *shardsWorld) begin() {
	w.waitWorld.begin()
	for _, p := range w.processes {
		w.followers.Go(func() { w.serve(p) })
		w.followers.Go(func() {
			follow(w.waitWorld, p, 9600, "watcher", w.owners, func(all []zkrecipes.Owner, _ bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.seen[p.i] = all
			})
		})
	}
}

// checkAtRest checks that each shard has one owner, evenly, that the watchers see that, and that no
// more shards move than must when a process ends and comes back.
func (w *shardsWorld) checkAtRest() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	time.Sleep(mostHung + lastPause + 4*w.timeout + 2*w.settle) // a function that has failed is called again
	before := w.checkShares("at rest", w.clients)
	w.checkWatchers(before)
	w.checkLeast(before)
	w.stopFollowers()
	w.holds.check()
	time.Sleep(3 * w.timeout) // the session of one that was killed
	for _, name := range w.srv.Children(w.path()) {
		if name != "resized" {
			w.checkEmpty(w.path() + "/" + name)
		}
	}
}

// checkShares checks that so many processes have all shards, evenly, and returns who has them.
func (w *shardsWorld) checkShares(when string, processes int) map[int]*shardWork {
	n, _ := w.observer.size()
	w.mu.Lock()
	defer w.mu.Unlock()
	owners, shares := map[int]*shardWork{}, map[string]int{}
	for work := range w.live {
		if other := owners[work.shard.Number()]; other != nil {
			w.log.violation("%s: shard %d has two owners", when, work.shard.Number())
		}
		owners[work.shard.Number()] = work
		shares[work.who]++
		if work.shard.Count() != n || work.shard.Err() != nil {
			w.log.violation("%s: shard %d of %d, and there are %d: %v", when, work.shard.Number(), work.shard.Count(), n, work.shard.Err())
		}
	}
	if len(owners) != n || !judge.Evenly(shares, n, processes) {
		w.log.violation("%s: the shares of %d shards and %d processes are %v\n%s", when, n, processes, shares, w.srv.Tree())
	}
	return owners
}

func (w *shardsWorld) checkWatchers(owners map[int]*shardWork) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.clients {
		if len(w.seen[i]) != len(owners) || slices.ContainsFunc(w.seen[i], func(o zkrecipes.Owner) bool { return o.Leaves }) {
			w.log.violation("at rest the watcher of client %d sees %v", i, w.seen[i])
		}
	}
}

// checkLeast ends a process, cleanly or not, and starts it again. Only its shards may move, and
// only its share back. None may be without an owner for longer than promised.
func (w *shardsWorld) checkLeast(before map[int]*shardWork) {
	i := int(w.seed) % w.clients
	p := w.processes[i]
	most := time.Second
	for _, f := range w.plan.Faults() {
		if f.Do == zktest.Lag { // a process may see late that one has gone
			most += f.For
		}
	}
	w.observer.beginGaps()
	cleanly := w.seed%2 == 0
	goOn := w.stopServing(i)
	if cleanly {
		w.events.add("left in the end")
	} else {
		w.events.add("killed in the end")
		most += w.timeout + 2*time.Second // the server's ticks
		p.restart(false, 0)
	}
	time.Sleep(most)
	after := before
	if w.clients > 1 {
		after = w.checkShares("after an end", w.clients-1)
	}
	moved := func(from, to map[int]*shardWork) (n int) {
		for shard, work := range from {
			if to[shard] != work {
				n++
				if name := w.name(i); work.who != name && (to[shard] == nil || to[shard].who != name) {
					w.log.violation("shard %d moved from %s, and %s has ended or begun", shard, work.who, name)
				}
			}
		}
		return n
	}
	moved(before, after)
	if gap := w.observer.longestGap(); gap > most {
		w.log.violation("a shard had no owner for %v after a process has ended, cleanly %v", gap, cleanly)
	}
	goOn()
	time.Sleep(w.settle + 2*most)
	last := w.checkShares("after a beginning", w.clients)
	if n := moved(after, last); n != len(last)/w.clients {
		w.log.violation("%d of %d shards moved to one of %d processes", n, len(last), w.clients)
	}
}

func (w *shardsWorld) owners(c *zkrecipes.Client) iter.Seq2[[]zkrecipes.Owner, error] {
	return zkrecipes.NewShards(c, w.path(), 1, nil).Watch(w.follow)
}

// stopServing ends the Serve of a process, until the returned function is called.
func (w *shardsWorld) stopServing(i int) (goOn func()) {
	again := make(chan struct{})
	w.mu.Lock()
	w.pause[i] = again
	stop := w.stops[i]
	w.mu.Unlock()
	stop()
	return func() { close(again) }
}

// paused waits while a process is not to serve. It returns the context of the next Serve.
func (w *shardsWorld) paused(i int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(w.follow)
	w.mu.Lock()
	again := w.pause[i]
	w.stops[i] = cancel
	w.mu.Unlock()
	if again != nil {
		select {
		case <-again:
		case <-w.follow.Done():
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pause[i] = nil
		ctx, cancel = context.WithCancel(w.follow)
		w.stops[i] = cancel
	}
	return ctx, cancel
}
