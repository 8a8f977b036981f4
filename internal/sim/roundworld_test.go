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

// roundWorld is a world of barriers.
type roundWorld struct {
	*gathering
	seen *rounds

	mu    sync.Mutex
	calls []*attendance
}

// attendance is a call of Barrier.Wait, as its caller saw it.
type attendance struct {
	who         int
	path        string
	client      string
	called, ret int64
	index       int
	err         error
}

var roundBefalls = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step", "member deleted",
	"round opened", "one too many", "cancelled, and named", "told by the next session",
	"cancelled", "left undecided", "uncertain", "evicted", "expired",
}

func newRoundWorld(seed uint64) *world {
	g, _ := gather(seed, func(n int) []string {
		return []string{
			"multi(check,create,setData)", "multi(setData" + strings.Repeat(",check", n) + ")",
			"multi(delete,check,setData)", "multi(delete,setData)", "multi(create,create)", "multi(delete,delete)",
			"getData", "getChildren2", "sync",
		}
	}, "/app/barriers/a", "/app/barriers/b")
	w := &roundWorld{gathering: g}
	w.subject, w.seen = w, newRounds(g)
	return w.world
}

func (w *roundWorld) applied(c zktest.Change) {
	for _, path := range w.paths {
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.seen.applied(path, below, c)
			w.strike(c)
		}
	}
}

func (w *roundWorld) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.gathering.befall(weather, calm)
	if w.operator {
		weather.Go(func() { w.evict(calm, "/round") })
	}
}

// work is one worker's life: a round, and another.
func (w *roundWorld) work(p *process, j int) {
	defer w.gone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	barriers := map[string]*zkrecipes.Barrier{}
	of := -1 // the life in which they were made
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.alive()
		if life != of {
			of, barriers = life, map[string]*zkrecipes.Barrier{}
		}
		if barriers[path] == nil || r.IntN(3) == 0 {
			barriers[path] = zkrecipes.NewBarrier(c, path, w.n[path])
		}
		if !w.wait(r, path, func(ctx context.Context) {
			a := w.attend(ctx, p, life, 10*p.i+j, barriers[path], path)
			if a.err != nil && !w.mayFail(ctx, p, life, a.err) {
				w.h.violation("worker %d: %v", a.who, a.err)
			}
		}) {
			return
		}
	}
}

// attend takes part in a round.
func (w *roundWorld) attend(ctx context.Context, p *process, life, who int, b *zkrecipes.Barrier, path string) *attendance {
	a := &attendance{who: who, path: path, client: identity(p.i, life), called: w.h.now()}
	a.index, a.err = b.Wait(ctx)
	a.ret = w.h.now()
	w.h.note("worker %d of %s: waited since %d at %s: %d %v", who, a.client, a.called, path, a.index, a.err)
	w.tally(ctx, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, a)
	return a
}

func (w *roundWorld) tally(ctx context.Context, a *attendance) {
	switch {
	case a.err == nil && ctx.Err() != nil:
		w.befell.add("cancelled, and named")
	case a.undecided():
		w.befell.add("left undecided")
	case errors.Is(a.err, zkrecipes.ErrUncertain):
		w.befell.add("uncertain")
	case errors.Is(a.err, zkrecipes.ErrEvicted):
		w.befell.add("evicted")
	case errors.Is(a.err, zk.ErrSessionExpired):
		w.befell.add("expired")
	case a.err != nil && ctx.Err() != nil:
		w.befell.add("cancelled")
	}
}

// undecided: its caller left while disconnected.
func (a *attendance) undecided() bool {
	return a.err != nil && strings.Contains(a.err.Error(), "may be opened with this member")
}

// with reports whether the call can have been that member.
func (a *attendance) with(m *member) bool {
	switch {
	case a.client != m.client || a.called > m.came:
		return false
	case a.err == nil:
		return a.index == m.index && m.named < a.ret
	}
	return errors.Is(a.err, zkrecipes.ErrUncertain) // the join may have been on its way
}

func (w *roundWorld) rest() {
	for _, path := range w.paths {
		round := w.srv.Children(path + "/round")
		if len(round) > 1 || len(round) == 1 && round[0] != "ready" {
			w.h.violation("%s: left behind: %v\n%s", path, round, w.srv.Tree())
		}
		w.again(path)
		w.nothingLeft(path)
		w.judge(path)
	}
}

// again holds one round more, that nothing befalls.
func (w *roundWorld) again(path string) {
	ctx, cancel := context.WithTimeout(w.ctx, 20*w.timeout) // servers may lag all the same
	defer cancel()
	var all sync.WaitGroup
	for i := range w.n[path] {
		p := w.processes[i%len(w.processes)]
		all.Go(func() {
			c, life := p.alive()
			if a := w.attend(ctx, p, life, 100+i, zkrecipes.NewBarrier(c, path, w.n[path]), path); a.err != nil {
				w.h.violation("at rest: %v\n%s", a.err, w.srv.Tree())
			}
		})
	}
	all.Wait()
	time.Sleep(w.timeout)
}

// judge holds what callers were told against what the server has applied: each
// member with which a round was opened is a call's that was told so, or that
// could not be told; and each index that was told is a member's.
func (w *roundWorld) judge(path string) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	var named, owed []*member
	w.gathering.mu.Lock()
	for _, m := range w.seen.came[path] {
		if m.named > 0 {
			named = append(named, m)
		}
		// One that was deleted before its client had heard that it had come has come
		// again, and waits for another round.
		if m.named > 0 && !(m.gone > 0 && w.evicted[path+"/round/"+m.name]) {
			owed = append(owed, m)
		}
	}
	w.gathering.mu.Unlock()
	var calls, told []*attendance
	for _, a := range w.calls {
		if a.path != path {
			continue
		}
		calls = append(calls, a)
		if a.err == nil {
			told = append(told, a)
		}
	}
	if i := match(len(owed), len(calls), func(i, j int) bool { return calls[j].with(owed[i]) }); i >= 0 {
		m := owed[i]
		w.h.violation("%s: opened with %s of %s as %d, and nobody was told", path, m.name, m.client, m.index)
	}
	if i := match(len(told), len(named), func(i, j int) bool { return told[i].with(named[j]) }); i >= 0 {
		a := told[i]
		w.h.violation("%s: worker %d was told %d (called at %d), and no round was opened with it so", path, a.who, a.index, a.called)
	}
	for _, a := range told {
		for _, m := range named {
			if a.with(m) && m.gone > 0 && m.gone < a.ret && a.alone(m, named) {
				w.befell.add("told by the next session")
			}
		}
	}
}

// alone reports whether m is the only member that the call can have been.
func (a *attendance) alone(m *member, named []*member) bool {
	for _, other := range named {
		if other != m && a.with(other) {
			return false
		}
	}
	return true
}
