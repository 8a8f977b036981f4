//go:build unix

package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
)

func (a *app) gate() *cobra.Command {
	c := &cobra.Command{Use: "gate", Short: "Look at a gate, wait for it, open and shut it"}
	c.AddCommand(
		a.gateCommand("open PATH", "Open a gate: all who wait go on", (*zkrecipes.Gate).Open),
		a.gateCommand("shut PATH", "Shut a gate", (*zkrecipes.Gate).Shut),
		a.gateCommand("wait PATH", "Wait until a gate is open", (*zkrecipes.Gate).Wait),
		a.gateCommand("show PATH", "Say whether a gate is open", func(*zkrecipes.Gate, context.Context) error { return nil }))
	return c
}

// gateState is what the commands on a gate print.
type gateState struct {
	Path string `json:"path"`
	Open bool   `json:"open"`
}

// gateCommand returns a command that does something with a gate and prints its state.
func (a *app) gateCommand(use, short string, do func(*zkrecipes.Gate, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				g := zkrecipes.NewGate(client, args[0])
				if err := do(g, ctx); err != nil {
					return err
				}
				open, err := g.IsOpen(ctx)
				if err != nil {
					return err
				}
				return a.print(gateState{args[0], open}, func(w io.Writer) {
					fmt.Fprintf(w, "%s is %s\n", args[0], pick(open, "open", "shut"))
				})
			})
		},
	}
}

func (a *app) sem() *cobra.Command {
	c := &cobra.Command{Use: "sem", Short: "Change a semaphore"}
	c.AddCommand(&cobra.Command{
		Use:   "resize PATH SLOTS",
		Short: "Change the number of slots of a semaphore; nobody loses one",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				return failf(exitUsage, "%q is no number of slots", args[1])
			}
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				if err := zkrecipes.NewSemaphore(client, args[0], n).Resize(ctx, n); err != nil {
					return err
				}
				return a.print(struct {
					Path  string `json:"path"`
					Slots int    `json:"slots"`
				}{args[0], n}, func(w io.Writer) { fmt.Fprintf(w, "%s has %d slots\n", args[0], n) })
			})
		},
	})
	return c
}
