package sim

import (
	"math/rand/v2"
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
	leading map[leader]int // how many functions of Lead run
}

// leader is a client that leads at a path.
type leader struct {
	c    *zkrecipes.Client
	path string
}

var electionEvents = []string{
	"canceled at a step", "elected", "resigned", "term lost", "proclaimed", "led again", "leader replaced", "leader deleted", "made by hand",
	"member deleted", "place deleted", "place written to", "evicted", "path remade", "seen by Leader", "seen none", "seen", "skipped", "commit refused", "watched again",
}

func newElectionWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, fixed(
		"multi(create,setData)", "multi(check,create,setData)", "multi(check,delete,create,setData)",
		"multi(setData,delete,delete)", "multi(delete,delete)", "multi(check,check,setData)", "getData", "exists", "sync", "getChildren2",
	), "/app/elections/a", "/app/elections/b")
	w := &electionWorld{
		waitWorld: g, holds: newHolds(g.world, judge.Config{}), server: newElectionObserver(g.world),
		leading: map[leader]int{},
	}
	w.operated(w.evictMembers(""), w.disturbLines(6*time.Second, ""), w.remakePaths(noData), w.meddle())
	return w.with(w)
}

func (w *electionWorld) onChange(c zktest.Change) {
	w.changedBelow(c, w.server.onChange)
}

func (w *electionWorld) begin() {
	w.waitWorld.begin()
	for _, p := range w.processes {
		for _, path := range w.paths {
			w.followers.Go(func() { w.observe(p, path) })
		}
	}
}

// meddle is an operator that deletes leaders' znodes and creates some by hand.
func (w *electionWorld) meddle() fault {
	return w.operate(2500, 8*time.Second, func(r *rand.Rand, conn *zk.Conn) {
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

// checkAtRest checks that nothing is left, and that all observers follow one last term.
func (w *electionWorld) checkAtRest() {
	defer w.stopFollowers()
	for _, path := range w.paths {
		w.checkEmpty(path)
		w.checkSeenByAll(path, sighting{})
		t, err := zkrecipes.NewElection(w.processes[0].current().c, path).Campaign(w.ctx, []byte("at rest"))
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
	w.server.checkSeen(w.world, path, want)
}
