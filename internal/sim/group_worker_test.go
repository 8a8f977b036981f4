package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// stay keeps a member there for the whole run, with one client after the other.
func (w *groupWorld) stay(p *process) {
	r := rand.New(rand.NewPCG(w.seed, uint64(9700+p.i)))
	id := fmt.Sprintf("stays-%d", p.i)
	for n := 0; w.follow.Err() == nil; {
		c, life := p.current()
		n++
		m, err := w.join(w.follow, c, id, fmt.Sprintf("%s %d", id, n))
		if err != nil {
			w.checkEnded(p, life, id, err)
			continue
		}
		for w.follow.Err() == nil && !p.ended(life) {
			select {
			case <-time.After(time.Duration(r.Int64N(int64(5 * time.Second)))):
			case <-w.follow.Done():
			}
			if r.IntN(4) == 0 && w.updates.Err() == nil {
				n++
				if err := w.update(w.follow, m, fmt.Sprintf("%s %d", id, n)); err != nil {
					w.checkEnded(p, life, id, err)
				}
			}
		}
		w.events.add("stayed")
		if w.follow.Err() != nil {
			if err := m.Leave(); err != nil {
				w.log.violation("%s: leave: %v", id, err)
			}
		}
	}
}

// join joins, and checks that the member has been there.
func (w *groupWorld) join(ctx context.Context, c *zkrecipes.Client, id, data string) (*zkrecipes.Membership, error) {
	path := w.path() + "/" + id
	called := w.now(path)
	w.expect(path, data)
	m, err := zkrecipes.NewGroup(c, w.path()).Join(ctx, []byte(data), zkrecipes.MemberID(id))
	w.log.note("join of %s with %q: %v", id, data, err)
	if err == nil {
		w.events.add("joined")
		if !w.wasSince(path, data, called) {
			w.log.violation("%s has joined with %q, which was never there", id, data)
		}
	}
	return m, err
}

// update updates, and checks that the member has had the data.
func (w *groupWorld) update(ctx context.Context, m *zkrecipes.Membership, data string) error {
	path := w.path() + "/" + m.ID()
	called := w.now(path)
	w.expect(path, data)
	err := m.Update(ctx, []byte(data))
	w.log.note("update of %s to %q: %v", m.ID(), data, err)
	if err == nil {
		w.events.add("updated")
		if !w.wasSince(path, data, called) {
			w.log.violation("%s was updated to %q, which was never there", m.ID(), data)
		}
	}
	return err
}

// expect notes what a member that stays has at rest.
func (w *groupWorld) expect(path, data string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(path) > len(w.path()+"/stays-") && path[:len(w.path()+"/stays-")] == w.path()+"/stays-" {
		w.stays[path] = data
	}
}

// watch follows the group for the whole run, with one client after the other.
func (w *groupWorld) watch(p *process) {
	at := map[string]int{} // the last state that was seen, by path
	follow(w.waitWorld, p, 9800, "watcher", func(c *zkrecipes.Client) iter.Seq2[[]zkrecipes.Member, error] {
		return zkrecipes.NewGroup(c, w.path()).Watch(w.follow)
	}, func(ms []zkrecipes.Member, _ bool) { w.saw(p, ms, at) })
}

// saw checks that a watcher sees no member in an older state than before.
func (w *groupWorld) saw(p *process, ms []zkrecipes.Member, at map[string]int) {
	w.log.note("watcher of client %d sees %v", p.i, ms)
	w.events.add("seen")
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]string{}
	for _, m := range ms {
		now[w.path()+"/"+m.ID] = string(m.Data)
	}
	for path := range w.states {
		data, ok := now[path]
		if !ok {
			data = noZnode
		}
		n := slices.Index(w.history(path)[at[path]:], data)
		if n < 0 {
			w.log.violation("%s: the watcher of client %d sees %q, which was not so since state %d", path, p.i, data, at[path])
			continue
		}
		at[path] += n
	}
	w.seen[p.i] = now
}

// work joins, updates and leaves, a few times.
func (w *groupWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for round := range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		c, life := p.current()
		id := fmt.Sprintf("%d-%d", p.i, j)
		switch r.IntN(4) {
		case 0:
			id = "shared" // with workers of all processes
		case 1, 2:
			id = fmt.Sprintf("%d-%d-%d", p.i, j, round)
		}
		if !w.runCancelable(r, w.path(), func(ctx context.Context) {
			if err := w.visit(ctx, c, r, id, fmt.Sprintf("%s %d-%d.%d.%d", id, p.i, j, life, round)); err != nil && !w.isExpected(ctx, p, life, err) {
				w.log.violation("%s: %v", id, err)
			}
		}) {
			return
		}
	}
}

// visit joins, updates and leaves. Another worker of the process may have the id.
func (w *groupWorld) visit(ctx context.Context, c *zkrecipes.Client, r *rand.Rand, id, data string) error {
	if r.IntN(3) == 0 {
		_, err := zkrecipes.NewGroup(c, w.path()).Members(ctx)
		if err == nil {
			w.events.add("listed")
		}
		return err
	}
	m, err := w.join(ctx, c, id, data+".0")
	if id == "shared" && errors.Is(err, zk.ErrNodeExists) {
		w.events.add("refused an id")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := m.Leave(); err != nil {
			w.log.violation("%s: leave: %v", id, err)
		}
		w.events.add("left")
	}()
	for i := range r.IntN(3) {
		time.Sleep(time.Duration(r.Int64N(int64(2 * w.timeout))))
		if err := w.update(ctx, m, fmt.Sprintf("%s.%d", data, i+1)); err != nil {
			return err
		}
	}
	return nil
}
