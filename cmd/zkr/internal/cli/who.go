//go:build unix

package cli

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

func (a *app) who() *cobra.Command {
	watch := false
	c := &cobra.Command{
		Use:   "who PATH",
		Short: "List who holds and who waits, in order",
		Long: "Who lists who holds and who waits at PATH, in order: of a lock, an election, a semaphore, a\n" +
			"barrier. Of an election it also prints the leader's value, of a job the period that was done last.\n" +
			"Of a queue it lists the consumers that have items, and how many items there are; of a counter its\n" +
			"value and who waits to change it; of a group its members; of shards the processes and which shards\n" +
			"these have. Of any other path it lists the ephemeral znodes below as if they were members. Those\n" +
			"that wait at a gate leave no znode. With --watch it lists them again after each change.",
		Args: cobra.ExactArgs(1),
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			if watch {
				return watchLine(ctx, client, args[0], func(l view.Line) error {
					return a.print(l, func(w io.Writer) {
						fmt.Fprintf(w, "%s  %s\n", time.Now().Format(time.TimeOnly), view.Clean(path.Clean(args[0])))
						printPlaces(w, l)
					})
				})
			}
			l, err := view.ReadPath(ctx, client, args[0])
			if err != nil {
				return err
			}
			return a.print(l, func(w io.Writer) { printPlaces(w, l) })
		}),
	}
	c.Flags().BoolVar(&watch, "watch", false, "list again after each change, until a signal")
	return c
}

func printPlaces(w io.Writer, l view.Line) {
	says := l.Says()
	switch l.Recipe {
	case zkrecipes.RecipeQueue:
		says = view.Count(l.Len, "item", "items") + ", " + view.Count(l.Idle, "consumer waits", "consumers wait") + " for one"
	case zkrecipes.RecipeShards:
		says = fmt.Sprintf("%d of them", l.Size)
	case zkrecipes.RecipeGate:
		says = "shut" // it is found only while it is shut
	}
	if says != "" {
		fmt.Fprintf(w, "%s  %s, %s\n", view.Clean(l.Path), l.Recipe, says)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "STATE\tIDENTITY\tAGE\tSESSION\tTOKEN\tPLACE")
	now := time.Now()
	for _, p := range l.Places {
		state := l.Does(p)
		if p.Shared {
			state += " (shared)"
		}
		token := "-"
		if p.Held && p.Token != 0 {
			token = fmt.Sprint(p.Token)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", state, view.Clean(view.Brief(p.Identity)), age(now, p.Since), p.Session, token, view.Clean(p.Name))
	}
	_ = t.Flush()
}

func (a *app) evict() *cobra.Command {
	var yes, holder bool
	c := &cobra.Command{
		Use:   "evict PATH PLACE",
		Short: "Take a waiter's place away, or with --holder what a holder has",
		Long: "Evict deletes the znode of a waiter at PATH. PLACE is its name, which zkr who shows and\n" +
			"$ZKR_PLACE has, its session, its identity, or its number in the list of zkr who, from 1, if that\n" +
			"is one place only. Its call returns an error. With --holder it may be a holder, too. Then the next waiter holds, perhaps before the\n" +
			"evicted process knows: use it only if that process is dead, or if its writes are fenced.",
		Args: cobra.ExactArgs(2),
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			p, err := findPlace(ctx, client, args[0], args[1])
			if err != nil {
				return err
			}
			if p.Held && !holder {
				return failf(exitFailure, "%s holds %s (--holder evicts it all the same)", view.Clean(view.Brief(p.Identity)), args[0])
			}
			question := fmt.Sprintf("Evict %s, which %s %s, session %s?", view.Clean(view.Brief(p.Identity)), pick(p.Held, "holds", "waits for"), args[0], p.Session)
			if err := a.confirm(ctx, yes, question); err != nil {
				return err
			}
			evicted, err := client.Evict(ctx, p.Contender, &zkrecipes.EvictOptions{Holder: holder})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"place": p.Name, "evicted": evicted}, func(w io.Writer) { fmt.Fprintln(w, pick(evicted, "evicted", "it had left before")) })
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&holder, "holder", false, "evict also a holder")
	return c
}

// findPlace returns the place that the user means by a name.
func findPlace(ctx context.Context, client *zkrecipes.Client, path, name string) (view.Place, error) {
	l, err := view.ReadPath(ctx, client, path)
	if err != nil {
		return view.Place{}, err
	}
	found := placesNamed(l.Places, name)
	switch {
	case len(found) == 0:
		return view.Place{}, failf(exitFailure, "%s has no place %s (zkr who %s)", path, name, path)
	case len(found) > 1:
		return view.Place{}, failf(exitFailure, "%s has %d places of %s (zkr who %s shows their names)", path, len(found), name, path)
	}
	return found[0], l.CheckEvict()
}

// placesNamed returns the place of that name, or else those of that session, or identity, or the one
// of that number.
func placesNamed(places []view.Place, name string) (found []view.Place) {
	for kind := range 5 {
		for i, p := range places {
			names := [5]string{p.Name, p.Session.String(), p.Identity, view.WithoutOuter(p.Identity), strconv.Itoa(i + 1)}
			if names[kind] == name {
				found = append(found, p)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}
