//go:build unix

package cli

import (
	"cmp"
	"context"
	"errors"
	"reflect"
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

// watchLine calls tell with the line at the path, and again if it has changed, until ctx ends or
// tell returns an error.
func watchLine(ctx context.Context, client *zkrecipes.Client, at string, tell func(view.Line) error) error {
	changed := make(chan struct{}, 1)
	defer beside(ctx, watches(client, at, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})...)()
	var told *view.Line
	for {
		began := time.Now()
		l, err := readLine(ctx, client, at)
		if err == nil && (told == nil || !reflect.DeepEqual(l, *told)) {
			told, err = &l, tell(l)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(max(leastGap, 4*time.Since(began))):
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

// readLine reads the line at the path. One that nobody uses has no places.
func readLine(ctx context.Context, client *zkrecipes.Client, at string) (view.Line, error) {
	l, err := view.ReadPath(ctx, client, at)
	if errors.Is(err, zkrecipes.ErrUnused) || errors.Is(err, zk.ErrNoNode) {
		return view.Line{Path: at, Places: []view.Place{}}, nil
	}
	return l, err
}

// watches returns functions that call changed after what can be a change in the line at a path, of
// whatever recipe it is.
func watches(client *zkrecipes.Client, at string, changed func()) []func(context.Context) {
	all := []func(context.Context){func(ctx context.Context) {
		for range client.Watch(ctx, at) {
			changed()
		}
	}}
	for _, dir := range []string{"", "/line", "/slots", "/round", "/members"} {
		all = append(all, func(ctx context.Context) {
			for range client.WatchChildren(ctx, strings.TrimSuffix(at, "/")+dir) {
				changed()
			}
		})
	}
	return all
}

// event is what has happened to a place, as it is printed.
type event struct {
	Time     time.Time       `json:"time"` // when zkr saw it
	Event    string          `json:"event"`
	Path     string          `json:"path"`
	Place    string          `json:"place,omitempty"`
	Identity string          `json:"identity,omitempty"`
	Session  view.Session    `json:"session,omitzero"`
	Since    time.Time       `json:"since,omitzero"` // when it joined, by the servers' clock
	Token    zkrecipes.Token `json:"token,omitempty"`
	Sentence string          `json:"sentence,omitempty"` // of a deadlock
}

// eventsBetween returns what has happened between two looks. before is nil at the first.
func eventsBetween(now time.Time, before *view.Line, l view.Line) (events []event) {
	add := func(what string, p view.Place) {
		events = append(events, event{
			Time: now.UTC(), Event: what, Path: l.Path, Place: p.Name, Identity: p.Identity, Session: p.Session, Since: p.Since, Token: p.Token,
		})
	}
	if before == nil {
		for _, p := range l.Places {
			add(l.Does(p), p)
		}
		return events
	}
	grants := cmp.Or(l.Recipe, before.Recipe) != zkrecipes.RecipeGroup
	for _, p := range before.Places {
		switch i := find(l.Places, p); {
		case slices.ContainsFunc(l.Places, func(q view.Place) bool { return became(before, &l, p, q) }):
		case i < 0:
			add(pick(p.Held && grants, "released", "left"), p)
		case p.Held && !l.Places[i].Held:
			add("waits", p)
		}
	}
	for _, p := range l.Places {
		i := find(before.Places, p)
		if joined(before, &l, p) {
			add("joined", p)
		}
		if grants && p.Held && (i < 0 || !before.Places[i].Held) {
			add("granted", p)
		}
	}
	return events
}

// find returns the index of a place, -1 if it is not there.
func find(places []view.Place, p view.Place) int {
	return slices.IndexFunc(places, func(q view.Place) bool { return q.Name == p.Name && q.Session == p.Session })
}

// became reports whether a waiter of the first look is that holder of the second: one that leads, or gets a
// slot, has another znode from then on.
func became(before, l *view.Line, waiter, holder view.Place) bool {
	moves := l.Recipe == zkrecipes.RecipeElection || l.Recipe == zkrecipes.RecipeSemaphore
	return moves && waiter.Session == holder.Session && !waiter.Held && holder.Held &&
		find(l.Places, waiter) < 0 && find(before.Places, holder) < 0
}

// joined reports whether a place of the second look is another than all of the first.
func joined(before, l *view.Line, p view.Place) bool {
	return find(before.Places, p) < 0 &&
		!slices.ContainsFunc(before.Places, func(q view.Place) bool { return became(before, l, q, p) })
}

func (a *app) events() *cobra.Command {
	var deadlocks string
	every := 10 * time.Second
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
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			return a.printEvents(ctx, client, args[0], deadlocks, every)
		}),
	}
	c.Flags().StringVar(&deadlocks, "deadlocks", "", "look for deadlocks below this path, which costs what zkr graph does")
	c.Flags().Var(durationFrom(time.Second, &every), "every", "time between two looks of --deadlocks")
	return c
}

func (a *app) printEvents(ctx context.Context, client *zkrecipes.Client, at, deadlocks string, every time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // of standard output
	print := func(events ...event) error {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			if err := writeJSON(a.stdout, e); err != nil {
				return err
			}
		}
		return nil
	}
	if deadlocks != "" {
		defer beside(ctx, func(ctx context.Context) {
			if err := a.watchDeadlocks(ctx, client, at, deadlocks, every, print); err != nil {
				stop(err)
			}
		})()
	}
	var before *view.Line
	return watchLine(ctx, client, at, func(l view.Line) error {
		events := eventsBetween(time.Now(), before, l)
		before = &l
		return print(events...)
	})
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
