package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// watch follows a znode for the whole run, with one client after the other.
func (w *watchWorld) watch(p *process, what watched) {
	name := fmt.Sprintf("reader %v", what)
	var at int // the state that it has seen
	saw := func(s string, first bool) {
		if !first {
			at++
		}
		at = w.states.saw(w.world, p.i, what, s, at)
	}
	if what.children {
		follow(w.waitWorld, p, 9500, name, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Children, error] {
			_, at = w.states.now(what) // the state when the call begins, or a later one
			return c.WatchChildren(w.follow, what.path)
		}, func(n zkrecipes.Children, first bool) { saw(textOfChildren(n), first) })
		return
	}
	follow(w.waitWorld, p, 9500, name, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Node, error] {
		_, at = w.states.now(what)
		return c.Watch(w.follow, what.path)
	}, func(n zkrecipes.Node, first bool) { saw(textOfNode(n), first) })
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

// work reads znodes, a few times. A read shows what was so at any time, and behind a Ping
// nothing older than that.
func (w *watchWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, 2*w.rounds, 3*time.Second) {
		what := watched{w.paths[by.r.IntN(len(w.paths))], by.r.IntN(2) == 0}
		if !w.try(by, what.path, func(ctx context.Context) error { return w.read(ctx, by.c, what, by.r.IntN(2) == 0) }) {
			return
		}
	}
}

func (w *watchWorld) read(ctx context.Context, c *zkrecipes.Client, what watched, pinged bool) error {
	_, now := w.states.now(what)
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
	w.events.add("read")
	if w.states.find(what, s, now) >= 0 {
		return nil
	}
	w.events.add("read an old state")
	if w.states.find(what, s, from) < 0 {
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
