//go:build unix

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

func (a *app) queue() *cobra.Command {
	return group("queue", "Look at the items of a queue, and put, move and remove some",
		"Queue looks at the items of a queue, and puts, moves and removes some. Its dead letters are in\n"+
			"PATH-dead unless the service has chosen another path. With --dead, ls and peek show them, and\n"+
			"purge and remove remove them.",
		a.queueList(), a.queuePut(), a.queuePeek(), a.queueRedrive(), a.queuePurge(), a.queueRemove(), a.queueBury())
}

// onQueue has a command do something with a queue, or with --dead, which not all have, with its dead
// letters. do gets the arguments behind PATH.
func (a *app) onQueue(c *cobra.Command, hasDead bool, do func(ctx context.Context, q *zkrecipes.Queue, args []string) error) *cobra.Command {
	var isDead bool
	var deadLetter string
	c.Flags().StringVar(&deadLetter, "dead-letter", "", "the service's QueueOptions.DeadLetter, if it has set that")
	if hasDead {
		c.Flags().BoolVar(&isDead, "dead", false, "the queue's dead letters")
	}
	c.RunE = a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
		q := zkrecipes.NewQueue(client, args[0], &zkrecipes.QueueOptions{DeadLetter: deadLetter})
		if isDead {
			q = q.DeadLetters()
		}
		return do(ctx, q, args[1:])
	})
	return c
}

// item is an Entry as it is printed.
type item struct {
	ID       zkrecipes.ItemID `json:"id"`
	Data     string           `json:"data,omitempty"`
	Binary   []byte           `json:"binary,omitempty"` // instead of Data if that is no text
	Since    time.Time        `json:"since"`
	Attempts int              `json:"attempts"`
	Consumer string           `json:"consumer,omitempty"`
	Session  view.Session     `json:"session,omitzero"`
	Taken    time.Time        `json:"taken,omitzero"`
	Failure  failed           `json:"failure,omitzero"`
}

type failed struct {
	Queue    string `json:"queue"`
	Attempts int    `json:"attempts"`
	Text     string `json:"text"`
}

func newItem(e zkrecipes.Entry) item {
	i := item{
		ID: e.ID, Since: e.Since.UTC(), Attempts: e.Attempts, Consumer: e.Consumer, Session: view.Session(e.Session),
		Taken: e.TakenSince.UTC(), Failure: failed(e.Failure),
	}
	if utf8.Valid(e.Data) {
		i.Data = string(e.Data)
	} else {
		i.Binary = e.Data
	}
	return i
}

func (a *app) queueList() *cobra.Command {
	return a.onQueue(&cobra.Command{
		Use:   "ls PATH",
		Short: "List the items, the oldest first; with -o json one object a line",
		Args:  cobra.ExactArgs(1),
	}, true, a.listItems)
}

// listItems prints items as they come: there may be many.
func (a *app) listItems(ctx context.Context, q *zkrecipes.Queue, _ []string) error {
	text := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	now := time.Now()
	if !a.isJSON() {
		fmt.Fprintln(text, "ID\tAGE\tATTEMPTS\tTAKEN BY\tBYTES\tDATA")
	}
	for e, err := range q.Items(ctx) {
		if err != nil {
			return errors.Join(err, text.Flush())
		}
		if a.isJSON() {
			if err := writeJSON(a.stdout, newItem(e)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(text, "%s\t%s\t%d\t%s\t%d\t%s\n", e.ID, age(now, e.Since), e.Attempts, view.Clean(e.Consumer), len(e.Data), brief(e.Data, 40))
		if e.Failure.Text != "" {
			fmt.Fprintf(text, "\t\t\t\t\tfailed: %s\n", brief([]byte(e.Failure.Text), 60))
		}
	}
	return text.Flush()
}

func (a *app) queuePut() *cobra.Command {
	var lines bool
	c := &cobra.Command{
		Use:   "put PATH [DATA]",
		Short: "Put an item at the end; without DATA, standard input is the item",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if lines && len(args) == 2 {
				return failf(exitUsage, "with --lines the items come from standard input")
			}
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				q := zkrecipes.NewQueue(client, args[0], nil)
				if lines {
					return a.putLines(ctx, q)
				}
				data := []byte(args[len(args)-1])
				if len(args) == 1 {
					var err error
					if data, err = reading(ctx, func() ([]byte, error) { return io.ReadAll(a.stdin) }); err != nil {
						return err
					}
				}
				return a.put(ctx, q, data)
			})
		},
	}
	c.Flags().BoolVar(&lines, "lines", false, "each line of standard input is an item")
	return c
}

func (a *app) putLines(ctx context.Context, q *zkrecipes.Queue) error {
	lines := bufio.NewScanner(a.stdin)
	lines.Buffer(nil, 2<<20) // more than a request has room for
	for n := 1; ; n++ {
		more, err := reading(ctx, func() (bool, error) { return lines.Scan(), lines.Err() })
		if err == nil && !more {
			return nil
		}
		if err == nil {
			err = a.put(ctx, q, lines.Bytes())
		}
		if err != nil {
			return fmt.Errorf("at line %d: %w", n, err)
		}
	}
}

func (a *app) put(ctx context.Context, q *zkrecipes.Queue, data []byte) error {
	id, err := q.Put(ctx, data)
	if err != nil {
		return err
	}
	return a.print(map[string]zkrecipes.ItemID{"id": id}, func(w io.Writer) { fmt.Fprintln(w, id) })
}

func (a *app) queuePeek() *cobra.Command {
	return a.onQueue(&cobra.Command{
		Use:   "peek PATH [ID]",
		Short: "Print the data of an item, or of the one that is taken next (escaped on a terminal)",
		Args:  cobra.RangeArgs(1, 2),
	}, true, func(ctx context.Context, q *zkrecipes.Queue, ids []string) (err error) {
		var e zkrecipes.Entry
		if len(ids) == 0 {
			e, err = q.Peek(ctx)
		} else {
			e, err = q.Find(ctx, zkrecipes.ItemID(ids[0]))
		}
		if err != nil {
			return err
		}
		return a.print(newItem(e), func(w io.Writer) {
			if isTerminal(a.stdout.Writer) {
				fmt.Fprintln(w, view.Printable(e.Data))
				return
			}
			_, _ = w.Write(e.Data)
		})
	})
}

func (a *app) queueRedrive() *cobra.Command {
	n := math.MaxInt32
	c := a.onQueue(&cobra.Command{
		Use:   "redrive PATH",
		Short: "Move dead letters back to the end of their queue",
		Args:  cobra.ExactArgs(1),
	}, false, func(ctx context.Context, q *zkrecipes.Queue, _ []string) error {
		moved, err := q.Redrive(ctx, n)
		return errors.Join(err, a.printCount("moved", moved))
	})
	c.Flags().VarP(numberFrom(1, &n), "number", "n", "how many at most, the oldest first")
	return c
}

func (a *app) queuePurge() *cobra.Command {
	yes := false
	c := a.onQueue(&cobra.Command{
		Use:   "purge PATH",
		Short: "Remove all items that no consumer has, for good",
		Args:  cobra.ExactArgs(1),
	}, true, func(ctx context.Context, q *zkrecipes.Queue, _ []string) error {
		n, err := q.Len(ctx)
		if err != nil {
			return err
		}
		if err := a.confirm(ctx, yes, fmt.Sprintf("Remove up to %s of %s for good?", view.Count(n, "item", "items"), q.Path())); err != nil {
			return err
		}
		removed, err := q.Purge(ctx)
		return errors.Join(err, a.printCount("removed", removed))
	})
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) queueRemove() *cobra.Command {
	return a.eachItem(&cobra.Command{
		Use:   "remove [flags] PATH ID..",
		Short: "Remove items that no consumer has, for good; flags come before PATH",
	}, true, "removed", (*zkrecipes.Queue).Remove)
}

func (a *app) queueBury() *cobra.Command {
	return a.eachItem(&cobra.Command{
		Use:   "bury [flags] PATH ID..",
		Short: "Move items to the dead letters, also those that consumers have; flags come before PATH",
		Long: "Bury moves items to the dead letters, also those that consumers have. Use it for an item that hangs\n" +
			"each consumer. A consumer that has it learns of that, and what it has begun goes on until it stops by itself:\n" +
			"end its process if it does not. Redrive moves the items back.",
	}, false, "buried", (*zkrecipes.Queue).Bury)
}

// eachItem has a command do something with each item whose ID is among its arguments, and print
// with how many it did so.
func (a *app) eachItem(c *cobra.Command, hasDead bool, done string, do func(*zkrecipes.Queue, context.Context, zkrecipes.ItemID) error) *cobra.Command {
	c.Args = cobra.MinimumNArgs(2)
	c.Flags().SetInterspersed(false) // an ID may begin with -
	return a.onQueue(c, hasDead, func(ctx context.Context, q *zkrecipes.Queue, ids []string) error {
		for n, id := range ids {
			if err := do(q, ctx, zkrecipes.ItemID(id)); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", id, err), a.printCount(done, n))
			}
		}
		return a.printCount(done, len(ids))
	})
}

func (a *app) printCount(what string, n int) error {
	return a.print(map[string]int{what: n}, func(w io.Writer) { fmt.Fprintf(w, "%s %d\n", what, n) })
}
