package sim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// electionWorld is the workload of Election: candidates, and an observer of each path in
// each process, which follows it for the whole run.
type electionWorld struct {
	*waitWorld
	server *electionObserver
	holds  *holds

	mu      sync.Mutex
	leading map[*zkrecipes.Client]leadCounts // functions of Lead that run
	seen    map[*follower]sighting           // what each observer saw last
}

// leadCounts are how many functions of Lead run, by path.
type leadCounts map[string]int

var electionEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step",
	"elected", "resigned", "term lost", "proclaimed", "led again", "leader replaced", "leader deleted", "made by hand",
	"member deleted", "place deleted", "place written to", "evicted", "path remade", "seen by Leader", "seen none", "seen", "observer skipped", "commit refused", "watched again",
}

func newElectionWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(int) []string {
		return []string{
			"multi(create,setData)", "multi(check,create,setData)", "multi(check,delete,create,setData)",
			"multi(setData,delete,delete)", "multi(delete,delete)", "multi(check,check,setData)", "getData", "exists", "sync", "getChildren2",
		}
	}, "/app/elections/a", "/app/elections/b")
	w := &electionWorld{
		waitWorld: g, holds: newHolds(g.world, judge.Config{}), server: newElectionObserver(g.world, g.paths),
		leading: map[*zkrecipes.Client]leadCounts{}, seen: map[*follower]sighting{},
	}
	w.workload = w
	return w.world
}

func (w *electionWorld) onChange(c zktest.Change) {
	for _, path := range w.paths {
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.server.onChange(path, below, c)
			w.faultAtStep(c)
		}
	}
}

func (w *electionWorld) begin() {
	w.waitWorld.begin()
	for _, p := range w.processes {
		for _, path := range w.paths {
			w.followers.Go(func() { w.observe(p, path) })
		}
	}
}

func (w *electionWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if w.operator {
		faults.Go(func() { w.evictMembers(stop, "") })
		faults.Go(func() { w.disturbLines(stop, 6*time.Second, "") })
		faults.Go(func() { w.remakePaths(stop, func(int) []byte { return nil }) })
		faults.Go(func() { w.meddle(stop) })
	}
}

// meddle is an operator that deletes leaders' znodes and creates some by hand.
func (w *electionWorld) meddle(stop <-chan struct{}) {
	w.operate(2500, 8*time.Second, stop, func(r *rand.Rand, conn *zk.Conn) {
		leader := w.paths[r.IntN(len(w.paths))] + "/leader"
		if r.IntN(3) == 0 {
			if _, err := conn.Create(leader, []byte(byHand), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err == nil {
				w.events.add("made by hand")
			}
		} else if conn.Delete(leader, -1) == nil {
			w.events.add("leader deleted")
		}
	})
}

// unblock has nothing to do: every candidate is elected in the end.
func (w *electionWorld) unblock() {}

// checkAtRest checks that nothing is left, and that all observers follow one last term.
func (w *electionWorld) checkAtRest() {
	defer w.stopFollowers()
	for _, path := range w.paths {
		w.checkEmpty(path)
		w.checkSeenByAll(path, sighting{})
		t, err := zkrecipes.NewElection(w.processes[0].client(), path).Campaign(w.ctx, []byte("at rest"))
		if err != nil {
			w.log.violation("at rest: %v", err)
			continue
		}
		w.checkSeenByAll(path, sighting{token: t.Token(), value: "at rest"})
		if err := t.Proclaim(w.ctx, []byte("at last")); err != nil {
			w.log.violation("at rest: %v", err)
		}
		w.checkSeenByAll(path, sighting{token: t.Token(), value: "at last"})
		if err := t.Resign(); err != nil {
			w.log.violation("at rest: %v", err)
		}
		w.checkSeenByAll(path, sighting{})
	}
	w.holds.check()
}

// checkSeenByAll checks that after a while all observers of a path have seen the same.
func (w *electionWorld) checkSeenByAll(path string, want sighting) {
	time.Sleep(2 * w.timeout) // its server may lag
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for f, got := range w.seen {
		if f.path != path {
			continue
		}
		n++
		if got != want {
			w.log.violation("%s: at rest the observer of client %d sees %v, and the server has %v", path, f.process, got, want)
		}
	}
	if n != w.clients {
		w.log.violation("%s: %d observers have seen something, and there are %d", path, n, w.clients)
	}
}
