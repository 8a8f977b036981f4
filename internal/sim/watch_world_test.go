package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// watchWorld is the workload of Client.Watch and Client.WatchChildren: an operator changes
// znodes, and each process follows them for the whole run. Workers read now and then.
type watchWorld struct {
	*waitWorld

	mu     sync.Mutex
	states map[watched][]string // what there was on the server, the oldest first
	names  map[string][]string  // of the children there are now, by path
	seen   map[watcher]string   // what each reader saw last
}

// watched is a znode's data, or its children.
type watched struct {
	path     string
	children bool
}

// watcher is a reader in a process.
type watcher struct {
	process int
	watched
}

const noZnode = "none"

var watchEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired",
	"created", "set", "deleted", "child created", "child deleted", "seen", "seen none", "skipped", "watched again",
	"read", "read an old state",
}

func newWatchWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(int) []string {
		return []string{"getData", "exists", "sync", "getChildren2"}
	}, "/config", "/members")
	w := &watchWorld{waitWorld: g, states: map[watched][]string{}, names: map[string][]string{}, seen: map[watcher]string{}}
	for _, path := range g.paths {
		for _, children := range []bool{false, true} {
			w.states[watched{path, children}] = []string{noZnode}
		}
	}
	w.workload = w
	return w.world
}

func (w *watchWorld) onChange(c zktest.Change) {
	for _, path := range w.paths {
		if c.Path == path {
			w.changed(path, c)
		} else if child, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.childChanged(path, child, c)
		} else {
			continue
		}
		w.faultAtStep(c)
	}
}

func (w *watchWorld) changed(path string, c zktest.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data, list := watched{path, false}, watched{path, true}
	switch {
	case c.Created:
		w.names[path] = nil
		w.states[data] = append(w.states[data], string(c.Data))
		w.states[list] = append(w.states[list], listing(c.Zxid, nil))
	case c.Deleted:
		w.states[data] = append(w.states[data], noZnode)
		w.states[list] = append(w.states[list], noZnode)
	default:
		w.states[data] = append(w.states[data], string(c.Data))
	}
}

func (w *watchWorld) childChanged(path, child string, c zktest.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.Created:
		w.names[path] = append(w.names[path], child)
	case c.Deleted:
		w.names[path] = slices.DeleteFunc(w.names[path], func(name string) bool { return name == child })
	default:
		return
	}
	list := watched{path, true}
	w.states[list] = append(w.states[list], listing(c.Zxid, w.names[path]))
}

// listing is a state of children. The zxid tells it from one before with the same names.
func listing(pzxid int64, names []string) string {
	return fmt.Sprintf("0x%x %v", pzxid, slices.Sorted(slices.Values(names)))
}

func (w *watchWorld) begin() {
	w.waitWorld.begin()
	w.lagBehind()
	for _, p := range w.processes {
		for what := range maps.Keys(w.states) {
			w.followers.Go(func() { w.watch(p, what) })
		}
	}
}

func (w *watchWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	for i, path := range w.paths {
		faults.Go(func() { w.change(path, rand.New(rand.NewPCG(w.seed, uint64(2600+i))), stop) })
	}
}

// change changes a znode and its children, sometimes many times at one moment.
func (w *watchWorld) change(path string, r *rand.Rand, stop <-chan struct{}) {
	conn, done := w.rawConn()
	defer done()
	for n := 0; ; n++ {
		if r.IntN(3) > 0 {
			select {
			case <-time.After(time.Duration(r.Int64N(int64(4 * time.Second)))):
			case <-stop:
				return
			}
		}
		child := fmt.Sprintf("%s/%d", path, r.IntN(3))
		data := fmt.Appendf(nil, "%d", n)
		what, err := "", error(nil)
		switch r.IntN(6) {
		case 0:
			what = "deleted"
			for i := range 3 {
				_ = conn.Delete(fmt.Sprintf("%s/%d", path, i), -1) // or it is not there
			}
			err = conn.Delete(path, -1)
		case 1:
			what = "child deleted"
			err = conn.Delete(child, -1)
		case 2, 3:
			what = "child created"
			_, err = conn.Create(child, data, 0, zk.WorldACL(zk.PermAll))
		default:
			what = "set"
			if _, err = conn.Set(path, data, -1); err == zk.ErrNoNode {
				what = "created"
				_, err = conn.Create(path, data, 0, zk.WorldACL(zk.PermAll))
			}
		}
		if err == nil {
			w.events.add(what)
		}
	}
}

// unblock has nothing to do: no worker waits for others.
func (w *watchWorld) unblock() {}

// checkAtRest checks that all readers have seen the last state.
func (w *watchWorld) checkAtRest() {
	time.Sleep(2 * w.timeout) // a server may lag
	w.mu.Lock()
	n := 0
	for f, got := range w.seen {
		n++
		if all := w.states[f.watched]; got != all[len(all)-1] {
			w.log.violation("%v: at rest the reader of client %d has %s, and the server %s", f.watched, f.process, got, all[len(all)-1])
		}
	}
	if want := w.clients * len(w.states); n != want {
		w.log.violation("%d readers have seen something, and there are %d", n, want)
	}
	w.mu.Unlock()
	w.stopFollowers()
}
