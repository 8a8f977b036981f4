//go:build unix

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

func (a *app) gate() *cobra.Command {
	return group("gate", "Look at a gate, wait for it, open and shut it", "",
		a.gateCommand("open PATH", "Open a gate: all who wait go on", (*zkrecipes.Gate).Open),
		a.gateCommand("shut PATH", "Shut a gate", (*zkrecipes.Gate).Shut),
		a.gateWait(),
		a.gateCommand("show PATH", "Say whether a gate is open: exit status 75 if it is shut", func(*zkrecipes.Gate, context.Context) error { return nil }))
}

// gateCommand returns a command that does something with a gate and prints its state.
func (a *app) gateCommand(use, short string, do func(*zkrecipes.Gate, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			g := zkrecipes.NewGate(client, args[0])
			if err := do(g, ctx); err != nil {
				return err
			}
			open, err := g.IsOpen(ctx)
			if err != nil {
				return err
			}
			err = a.print(map[string]any{"path": args[0], "open": open}, func(w io.Writer) {
				fmt.Fprintf(w, "%s is %s\n", args[0], pick(open, "open", "shut"))
			})
			if err == nil && !open && strings.HasPrefix(use, "show") {
				return exit(exitNotAcquired)
			}
			return err
		}),
	}
}

// gateWait returns the command that waits for a gate.
func (a *app) gateWait() *cobra.Command {
	var wait time.Duration
	c := a.gateCommand("wait PATH", "Wait until a gate is open", func(g *zkrecipes.Gate, ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(wait, forEver), errWaited)
		defer cancel()
		err := g.Wait(ctx)
		if err != nil && errors.Is(context.Cause(ctx), errWaited) {
			return &failure{exitNotAcquired, err}
		}
		return err
	})
	c.Flags().VarP(waitTime(&wait), "wait", "w", "wait so long at most: 30 (seconds), 1m30s; exit status 75 then (default: for ever)")
	return c
}

func (a *app) sem() *cobra.Command {
	return group("sem", "Change a semaphore", "", &cobra.Command{
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
				return a.print(map[string]any{"path": args[0], "slots": n}, func(w io.Writer) { fmt.Fprintf(w, "%s has %s\n", args[0], view.Count(n, "slot", "slots")) })
			})
		},
	})
}
