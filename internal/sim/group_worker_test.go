package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// stay keeps a member there for the whole run, with one client after the other.
func (w *groupWorld) stay(p *process) {
	r := w.stream(9700 + p.i)
	id := fmt.Sprintf("stays-%d", p.i)
	for n := 0; w.follow.Err() == nil; {
		l := p.current()
		n++
		m, err := w.join(w.follow, l.c, id, fmt.Sprintf("%s %d", id, n))
		if err != nil {
			w.checkEnded(l, id, err)
			continue
		}
		for w.follow.Err() == nil && !l.ended() {
			select {
			case <-time.After(time.Duration(r.Int64N(int64(5 * time.Second)))):
			case <-w.follow.Done():
			}
			if r.IntN(4) == 0 && w.updates.Err() == nil {
				n++
				if err := w.update(w.follow, m, fmt.Sprintf("%s %d", id, n)); err != nil {
					w.checkEnded(l, id, err)
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
func (w *groupWorld) join(ctx context.Context, c *zkrecipes.Client, id, data string) (m *zkrecipes.Membership, err error) {
	err = w.tell("joined", id, data, func() error {
		m, err = zkrecipes.NewGroup(c, w.path()).Join(ctx, []byte(data), zkrecipes.MemberID(id))
		return err
	})
	return m, err
}

// update updates, and checks that the member has had the data.
func (w *groupWorld) update(ctx context.Context, m *zkrecipes.Membership, data string) error {
	return w.tell("updated", m.ID(), data, func() error { return m.Update(ctx, []byte(data)) })
}

// tell makes a call after which the member has the data. It notes what a member that stays has at rest.
func (w *groupWorld) tell(event, id, data string, call func() error) error {
	path := w.path() + "/" + id
	_, called := w.states.now(path)
	if strings.HasPrefix(id, "stays-") {
		w.mu.Lock()
		w.stays[path] = data
		w.mu.Unlock()
	}
	err := call()
	w.log.note("%s: %s with %q: %v", id, event, data, err)
	if err == nil {
		w.events.add(event)
		if w.states.find(path, data, called) < 0 {
			w.log.violation("%s has %s with %q, which was never there", id, event, data)
		}
	}
	return err
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
	for _, path := range w.states.keys() {
		data, ok := now[path]
		if !ok {
			data = noZnode
		}
		n := w.states.find(path, data, at[path])
		if n < 0 {
			w.log.violation("%s: the watcher of client %d sees %q, which was not so since state %d", path, p.i, data, at[path])
			continue
		}
		at[path] = n
	}
	w.seen[p.i] = now
}

// work joins, updates and leaves, a few times.
func (w *groupWorld) work(p *process, j int) {
	for round, by := range w.turns(p, j, w.rounds, 3*time.Second) {
		id := fmt.Sprintf("%d-%d", p.i, j)
		switch by.r.IntN(4) {
		case 0:
			id = "shared" // with workers of all processes
		case 1, 2:
			id = fmt.Sprintf("%d-%d-%d", p.i, j, round)
		}
		if !w.try(by, w.path(), func(ctx context.Context) error {
			return w.visit(ctx, by, id, fmt.Sprintf("%s %d-%d.%d.%d", id, p.i, j, by.n, round))
		}) {
			return
		}
	}
}

// visit joins, updates and leaves. Another worker of the process may have the id.
func (w *groupWorld) visit(ctx context.Context, by *worker, id, data string) error {
	if by.r.IntN(3) == 0 {
		_, err := zkrecipes.NewGroup(by.c, w.path()).Members(ctx)
		if err == nil {
			w.events.add("listed")
		}
		return err
	}
	m, err := w.join(ctx, by.c, id, data+".0")
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
	for i := range by.r.IntN(3) {
		time.Sleep(time.Duration(by.r.Int64N(int64(2 * w.timeout))))
		if err := w.update(ctx, m, fmt.Sprintf("%s.%d", data, i+1)); err != nil {
			return err
		}
	}
	return nil
}
