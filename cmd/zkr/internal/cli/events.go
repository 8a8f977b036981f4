//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	leastGap  = 200 * time.Millisecond // between two looks at a line, which last a fifth of the time at most
	queuePoll = 2 * time.Second        // no single watch tells of a queue's items
)

// watchLine calls tell with the line at the path, and again after each change, until ctx ends or
// tell returns an error. A line that nobody uses has no places.
func watchLine(ctx context.Context, client *zkrecipes.Client, at string, tell func(view.Line) error) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	changed := make(chan struct{}, 1)
	nudge := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	all.Go(func() {
		for range client.Watch(ctx, at) {
			nudge()
		}
	})
	for _, dir := range []string{"", "/line", "/slots", "/round"} { // of whatever recipe it is
		all.Go(func() {
			for range client.WatchChildren(ctx, strings.TrimSuffix(at, "/")+dir) {
				nudge()
			}
		})
	}
	for {
		began := time.Now()
		l, err := view.ReadPath(ctx, client, at)
		if errors.Is(err, zkrecipes.ErrUnused) || errors.Is(err, zk.ErrNoNode) {
			l, err = view.Line{Path: at, Places: []view.Place{}}, nil
		}
		if err == nil {
			err = tell(l)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		wait := time.NewTimer(max(leastGap, 4*time.Since(began)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var poll <-chan time.Time
		if l.Recipe == zkrecipes.RecipeQueue {
			poll = time.After(queuePoll)
		}
		select {
		case <-changed:
		case <-poll:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// event is what has happened to a place, as it is printed.
type event struct {
	Time     time.Time       `json:"time"` // when zkr saw it
	Event    string          `json:"event"`
	Path     string          `json:"path"`
	Place    string          `json:"place,omitempty"`
	Identity string          `json:"identity,omitempty"`
	Session  *view.Session   `json:"session,omitempty"`
	Since    *time.Time      `json:"since,omitempty"` // when it joined, by the servers' clock
	Token    zkrecipes.Token `json:"token,omitempty"`
	Sentence string          `json:"sentence,omitempty"` // of a deadlock
}

// eventsBetween returns what has happened between two looks. before is nil at the first.
func eventsBetween(now time.Time, before *view.Line, l view.Line) (events []event) {
	add := func(what string, p view.Place) {
		session, since := p.Session, p.Since
		events = append(events, event{
			Time: now.UTC(), Event: what, Path: l.Path, Place: p.Name, Identity: p.Identity, Session: &session, Since: &since, Token: p.Token,
		})
	}
	if before == nil {
		for _, p := range l.Places {
			add(l.Does(p), p)
		}
		return events
	}
	find := func(places []view.Place, p view.Place) int {
		return slices.IndexFunc(places, func(q view.Place) bool { return q.Name == p.Name && q.Session == p.Session })
	}
	for _, p := range before.Places {
		switch i := find(l.Places, p); {
		case i < 0:
			add(pick(p.Held && before.Recipe != zkrecipes.RecipeGroup, "released", "left"), p)
		case p.Held && !l.Places[i].Held:
			add("waits", p)
		}
	}
	for _, p := range l.Places {
		i := find(before.Places, p)
		if i < 0 {
			add("joined", p)
		}
		if p.Held && l.Recipe != zkrecipes.RecipeGroup && (i < 0 || !before.Places[i].Held) {
			add("granted", p)
		}
	}
	return events
}

func (a *app) events() *cobra.Command {
	var deadlocks string
	var every time.Duration
	c := &cobra.Command{
		Use:   "events PATH",
		Short: "Print what happens at a path, one JSON object a line",
		Long: "Events prints who is at PATH: \"holds\", \"waits\" or \"member\" for each place. Then it prints what\n" +
			"happens, as it sees it: \"joined\", \"granted\", \"released\" for a holder that is there no more, and\n" +
			"\"left\" for a waiter or a member. To others, a release looks like an eviction, and like a session\n" +
			"that has expired. What comes and goes within a fifth of a second may not be seen.\n\n" +
			"With --deadlocks it also looks at all lines below a path every so often, and prints \"deadlock\" for\n" +
			"one in which PATH is.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if every < time.Second {
				return failf(exitUsage, "--every is %v, and must be at least 1s", every)
			}
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				return a.printEvents(ctx, client, args[0], deadlocks, every)
			})
		},
	}
	c.Flags().StringVar(&deadlocks, "deadlocks", "", "look for deadlocks below this path, which costs what zkr graph does")
	c.Flags().DurationVar(&every, "every", 10*time.Second, "time between two looks of --deadlocks")
	return c
}

func (a *app) printEvents(ctx context.Context, client *zkrecipes.Client, at, deadlocks string, every time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // of standard output
	lines := encoder{a.stdout}
	print := func(events ...event) error {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			if err := lines.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	var looking sync.WaitGroup
	defer looking.Wait()
	if deadlocks != "" {
		looking.Go(func() {
			if err := a.watchDeadlocks(ctx, client, at, deadlocks, every, print); err != nil {
				stop(err)
			}
		})
	}
	var before *view.Line
	err := watchLine(ctx, client, at, func(l view.Line) error {
		events := eventsBetween(time.Now(), before, l)
		before = &l
		return print(events...)
	})
	stop(err)
	return err
}

// watchDeadlocks prints the deadlocks in which the path is, each once.
func (a *app) watchDeadlocks(ctx context.Context, client *zkrecipes.Client, at, root string, every time.Duration, print func(...event) error) error {
	known := ""
	for ticks := time.NewTicker(every); ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		g, err := a.readGraph(ctx, client, root)
		if errors.Is(err, zk.ErrNoNode) {
			continue // nobody has used a path below it yet
		}
		if err != nil {
			return err
		}
		found := ""
		for _, circle := range g.Deadlocks {
			if slices.ContainsFunc(g.Edges(circle), func(w view.Wait) bool { return w.Path == at }) {
				found = g.Sentence(circle)
			}
		}
		if found != "" && found != known {
			if err := print(event{Time: time.Now().UTC(), Event: "deadlock", Path: at, Sentence: found}); err != nil {
				return err
			}
		}
		known = found
	}
}

// watchWho prints who is there after each change.
func (a *app) watchWho(ctx context.Context, client *zkrecipes.Client, at string) error {
	return watchLine(ctx, client, at, func(l view.Line) error {
		return a.print(l, func(w io.Writer) {
			fmt.Fprintf(w, "%s  %s\n", time.Now().Format(time.TimeOnly), view.Clean(path.Clean(at)))
			printPlaces(w, l)
		})
	})
}
