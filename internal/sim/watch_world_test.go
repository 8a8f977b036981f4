package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// watchWorld is the workload of Client.Watch and Client.WatchChildren: an operator changes
// znodes, and each process follows them for the whole run. Workers read now and then.
type watchWorld struct {
	*waitWorld
	all    []watched
	states *history[watched, string]
	names  map[string][]string // of the children there are now, by path
}

// watched is a znode's data, or its children.
type watched struct {
	path     string
	children bool
}

const noZnode = "none"

var watchEvents = []string{
	"created", "set", "deleted", "child created", "child deleted", "seen", "seen none", "skipped", "watched again",
	"read", "read an old state",
}

func newWatchWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, fixed("getData", "exists", "sync", "getChildren2"), "/config", "/members")
	w := &watchWorld{waitWorld: g, states: newHistory[watched](noZnode), names: map[string][]string{}}
	w.lags = true
	for i, path := range g.paths {
		w.all = append(w.all, watched{path, false}, watched{path, true})
		w.others = append(w.others, func(stop <-chan struct{}) { w.change(path, w.stream(2600+i), stop) })
	}
	return w.with(w)
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
	data, list := watched{path, false}, watched{path, true}
	switch {
	case c.Created:
		w.names[path] = nil
		w.states.add(data, string(c.Data))
		w.states.add(list, listing(c.Zxid, nil))
	case c.Deleted:
		w.states.add(data, noZnode)
		w.states.add(list, noZnode)
	default:
		w.states.add(data, string(c.Data))
	}
}

func (w *watchWorld) childChanged(path, child string, c zktest.Change) {
	switch {
	case c.Created:
		w.names[path] = append(w.names[path], child)
	case c.Deleted:
		w.names[path] = slices.DeleteFunc(w.names[path], func(name string) bool { return name == child })
	default:
		return
	}
	w.states.add(watched{path, true}, listing(c.Zxid, w.names[path]))
}

// listing is a state of children. The zxid tells it from one before with the same names.
func listing(pzxid int64, names []string) string {
	return fmt.Sprintf("0x%x %v", pzxid, slices.Sorted(slices.Values(names)))
}

func (w *watchWorld) begin() {
	w.waitWorld.begin()
	for _, p := range w.processes {
		for _, what := range w.all {
			w.followers.Go(func() { w.watch(p, what) })
		}
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

// checkAtRest checks that all readers have seen the last state.
func (w *watchWorld) checkAtRest() {
	time.Sleep(2 * w.timeout) // a server may lag
	for _, what := range w.all {
		now, _ := w.states.now(what)
		w.states.checkSeen(w.world, what, now)
	}
	w.stopFollowers()
}
