//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/top"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// used is a Usage as it is printed.
type used struct {
	Path         string           `json:"path"`
	Recipe       zkrecipes.Recipe `json:"recipe"`
	Holders      int              `json:"holders"`
	Waiters      int              `json:"waiters"`
	Len          int              `json:"len,omitempty"`
	Size         int              `json:"size,omitempty"`
	HeldSince    time.Time        `json:"heldSince,omitzero"`
	WaitingSince time.Time        `json:"waitingSince,omitzero"`
	ItemSince    time.Time        `json:"itemSince,omitzero"`
}

// rootOf returns the argument [ROOT].
func rootOf(args []string) string { return append(args, "/")[0] }

const leastInterval = 100 * time.Millisecond // between two looks, which cost the servers the same each time

func (a *app) ls() *cobra.Command {
	var watch bool
	interval := 2 * time.Second
	c := &cobra.Command{
		Use:   "ls [ROOT]",
		Short: "List the recipes below a path, their holders and waiters",
		Long: "Ls lists the recipes at ROOT and below, which is / by default: how many hold and wait, and since\n" +
			"when the oldest of each does. HELD of a lock counts from when its holder joined the line. With\n" +
			"-o json it prints one object a line. With --watch it lists them again and again, which costs the\n" +
			"servers the same each time: two reads and more for each recipe.",
		Args: cobra.MaximumNArgs(1),
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			if watch {
				return a.watchList(ctx, client, rootOf(args), interval)
			}
			return a.list(ctx, client, rootOf(args))
		}),
	}
	c.Flags().BoolVar(&watch, "watch", false, "list again and again, until a signal")
	c.Flags().Var(durationFrom(leastInterval, &interval), "interval", "time between two lists of --watch")
	return c
}

// watchList lists until ctx ends.
func (a *app) watchList(ctx context.Context, client *zkrecipes.Client, root string, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if !a.isJSON() {
			fmt.Fprintf(a.stdout, "%s  %s\n", time.Now().Format(time.TimeOnly), root)
		}
		if err := a.list(ctx, client, root); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// list prints the recipes, and on stderr what it could not see.
func (a *app) list(ctx context.Context, client *zkrecipes.Client, root string) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	header := sync.OnceFunc(func() { fmt.Fprintln(t, "PATH\tRECIPE\tHOLD\tWAIT\tHELD\tWAITING\tSIZE\tITEMS\tOLDEST") })
	now := time.Now()
	for u, err := range client.Recipes(ctx, root, nil) {
		switch {
		case err != nil && u.Path != root && a.isSkipped(err):
		case err != nil:
			return errors.Join(err, t.Flush())
		case a.isJSON():
			err := writeJSON(a.stdout, used{
				u.Path, u.Recipe, u.Holders, u.Waiters, u.Len, u.Size, u.HeldSince.UTC(), u.WaitingSince.UTC(), u.ItemSince.UTC(),
			})
			if err != nil {
				return err
			}
		default:
			header()
			printUsage(t, now, u)
		}
	}
	if !a.isJSON() {
		header()
	}
	return t.Flush()
}

// isSkipped reports whether the error is about a znode that was skipped, and says so on stderr.
func (a *app) isSkipped(err error) bool {
	if !view.IsSkipped(err) {
		return false
	}
	a.complain(0, err)
	return true
}

func printUsage(w io.Writer, now time.Time, u zkrecipes.Usage) {
	size, items := "-", "-"
	if u.Size > 0 {
		size = fmt.Sprint(u.Size)
	}
	if u.Recipe == zkrecipes.RecipeQueue {
		items = fmt.Sprint(u.Len)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", view.Clean(u.Path), u.Recipe, u.Holders, u.Waiters,
		age(now, u.HeldSince), age(now, u.WaitingSince), size, items, age(now, u.ItemSince))
}

func (a *app) graph() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "graph [ROOT]",
		Short: "Show who waits for whom, over all lines, and name deadlocks",
		Long: "Graph shows who holds and who waits in all lines below ROOT, by session, and names deadlocks:\n" +
			"sessions that wait for each other in a circle. It looks twice, and names those that it has\n" +
			"seen both times. A process whose calls have nothing to do with each other, each in a goroutine\n" +
			"of its own, can look like part of a circle: only you know whether it gives one lock back without\n" +
			"having the other.\n\n" +
			"The format is text, dot (for Graphviz) or svg.",
		Example: "  zkr graph --format svg > waits.svg",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			draw, ok := map[string]func(*view.Graph, io.Writer){
				"text": (*view.Graph).Text, "dot": (*view.Graph).Dot, "svg": (*view.Graph).SVG,
			}[format]
			if !ok {
				return failf(exitUsage, "--format is %q, not text, dot or svg", format)
			}
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				g, err := a.readGraph(ctx, client, rootOf(args))
				if err != nil {
					return err
				}
				return a.print(g, func(w io.Writer) { draw(g, w) })
			})
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, dot or svg")
	return c
}

// readGraph reads all lines, and again if there seems to be a deadlock.
func (a *app) readGraph(ctx context.Context, client *zkrecipes.Client, root string) (*view.Graph, error) {
	lines, err := a.readLines(ctx, client, root)
	if err != nil {
		return nil, err
	}
	g := view.NewGraph(lines)
	if len(g.Deadlocks) > 0 {
		again, err := a.readLines(ctx, client, root)
		if err != nil {
			return nil, err
		}
		g.Confirm(view.NewGraph(again))
	}
	return g, nil
}

func (a *app) readLines(ctx context.Context, client *zkrecipes.Client, root string) (lines []view.Line, err error) {
	lines = []view.Line{}
	for l, err := range view.Lines(ctx, client, root) {
		switch {
		case err == nil:
			lines = append(lines, l)
		case l.Path == root || !a.isSkipped(err):
			return nil, err
		}
	}
	return lines, nil
}

func (a *app) top() *cobra.Command {
	interval := time.Second
	c := &cobra.Command{
		Use:         "top [ROOT]",
		Annotations: map[string]string{drawsScreen: ""},
		Short:       "Show lines and queues live: the oldest holds, waits, rates",
		Long: "Top shows the recipes below ROOT, the oldest hold first, and who holds and waits in the one that\n" +
			"is selected. CHANGE/s of a queue is by how many items it grows or shrinks; that of others is how\n" +
			"many changes of the oldest holder were seen, at most one for each look. For the line that is\n" +
			"selected, joins are counted by its sequence numbers. Each look costs as much as zkr ls and zkr who.\n\n" +
			"With -o json it prints what zkr ls --watch does.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !a.isJSON() && !(isTerminal(a.stdin) && isTerminal(a.stdout.Writer)) {
				return failf(exitUsage, "top needs a terminal for its input and its output (zkr ls --watch does not)")
			}
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				if a.isJSON() {
					return a.watchList(ctx, client, rootOf(args), interval)
				}
				return top.Run(ctx, client, top.Options{Root: rootOf(args), Interval: interval, In: a.stdin, Out: a.stdout.Writer, Age: age})
			})
		},
	}
	c.Flags().Var(durationFrom(leastInterval, &interval), "interval", "time between two looks")
	return c
}
