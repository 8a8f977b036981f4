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

// watch follows a znode for the whole run, with one client after the other.
func (w *watchWorld) watch(p *process, what watched) {
	f := watcher{p.i, what}
	name := fmt.Sprintf("reader %v", what)
	var at int
	if what.children {
		follow(w.waitWorld, p, 9500, name, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Children, error] {
			at = w.now(what) // the state when the call begins, or a later one
			return c.WatchChildren(w.follow, what.path)
		}, func(n zkrecipes.Children, first bool) { at = w.saw(f, textOfChildren(n), at, first) })
		return
	}
	follow(w.waitWorld, p, 9500, name, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Node, error] {
		at = w.now(what)
		return c.Watch(w.follow, what.path)
	}, func(n zkrecipes.Node, first bool) { at = w.saw(f, textOfNode(n), at, first) })
}

func textOfNode(n zkrecipes.Node) string {
	if n.None() {
		return noZnode
	}
	return string(n.Data)
}

func textOfChildren(n zkrecipes.Children) string {
	if n.None() {
		return noZnode
	}
	return listing(n.Stat.Pzxid, n.Names)
}

// now returns the number of the latest state.
func (w *watchWorld) now(what watched) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.states[what]) - 1
}

// saw checks what a reader has seen, whose last state was at, and returns the number of the
// state that it has seen.
func (w *watchWorld) saw(f watcher, s string, at int, first bool) int {
	w.log.note("reader %v of client %d sees %s", f.watched, f.process, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	from := at
	if !first {
		from++
	}
	n := slices.Index(w.states[f.watched][from:], s)
	switch {
	case n < 0:
		w.log.violation("%v: the reader of client %d sees %s, which was not so since state %d", f.watched, f.process, s, from)
		n = 0
	case n > 0:
		w.events.add("skipped")
	}
	w.events.add("seen")
	if s == noZnode {
		w.events.add("seen none")
	}
	w.seen[f] = s
	return from + n
}

// work reads znodes, a few times. A read shows what was so at any time, and behind a Ping
// nothing older than that.
func (w *watchWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	for range 2 * w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		what := watched{w.paths[r.IntN(len(w.paths))], r.IntN(2) == 0}
		c, life := p.current()
		if !w.runCancelable(r, what.path, func(ctx context.Context) {
			if err := w.read(ctx, c, what, r.IntN(2) == 0); err != nil && !w.isExpected(ctx, p, life, err) {
				w.log.violation("worker %d: %v", 10*p.i+j, err)
			}
		}) {
			return
		}
	}
}

func (w *watchWorld) read(ctx context.Context, c *zkrecipes.Client, what watched, pinged bool) error {
	now := w.now(what)
	from := 0
	if pinged {
		if err := c.Ping(ctx); err != nil {
			return err
		}
		from = now
	}
	s, err := readOnce(ctx, c, what)
	if errors.Is(err, zk.ErrNoNode) {
		s, err = noZnode, nil
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events.add("read")
	if slices.Contains(w.states[what][now:], s) {
		return nil
	}
	w.events.add("read an old state")
	if !slices.Contains(w.states[what][from:], s) {
		w.log.violation("%v: a read (behind a Ping: %v) has %s, which was not so since state %d", what, pinged, s, from)
	}
	return nil
}

func readOnce(ctx context.Context, c *zkrecipes.Client, what watched) (string, error) {
	if what.children {
		names, stat, err := c.Children(ctx, what.path)
		return textOfChildren(zkrecipes.Children{Names: names, Stat: stat}), err
	}
	data, stat, err := c.Get(ctx, what.path)
	return textOfNode(zkrecipes.Node{Data: data, Stat: stat}), err
}
