//go:build unix

package cli

import (
	"context"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
)

const longElect = `Elect campaigns at PATH, and runs a command while it leads. If the leadership is lost, the command
is ended as by zkr lock, and zkr campaigns again. When the command ends by itself, zkr resigns and
exits as the command did. Others find the leader's value in the znode PATH/leader, or with zkr who.

The exit statuses and the command's environment are those of zkr lock. A leadership that is lost
is no reason to exit, unless zkr got SIGTERM in that term, or the command ended by itself after SIGINT,
SIGHUP or SIGQUIT. A command may go on after these: SIGHUP has many read their configuration again.`

func (a *app) elect() *cobra.Command {
	m := &command{}
	var value string
	c := &cobra.Command{
		Use:     "elect PATH [flags] -- COMMAND [ARG..]",
		Short:   "Run a command while being the leader",
		Long:    longElect,
		Example: "  zkr elect /services/billing --value \"$HOSTNAME:8080\" -- billing --listen :8080",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := m.parse(c, args)
			if err != nil {
				return err
			}
			return a.runElect(c.Context(), path, value, m)
		},
	}
	m.addFlags(c)
	c.Flags().StringVar(&value, "value", "", "what others see of the leader, such as an address")
	return c
}

// runElect leads until the command ends by itself.
func (a *app) runElect(ctx context.Context, path, value string, m *command) error {
	var client *zkrecipes.Client
	err := a.waiting(ctx, func(ctx context.Context) (err error) {
		if client, err = a.dial(ctx); err == nil {
			_, err = m.graceFor(client.Status().Timeout)
		}
		return err
	})
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return err
	}
	election := zkrecipes.NewElection(client, path)
	for {
		o, err := a.lead(ctx, client, election, value, m)
		switch {
		case err != nil:
			return err
		case o.lost == nil:
			return exit(o.code())
		case o.isToldToEnd():
			return exit(exitSignal + int(o.Told))
		}
		a.complain(int(m.lostCode), m.failLost(path, o))
	}
}

// isToldToEnd reports whether a signal has told zkr to end. SIGTERM has. Commands go on after others,
// as after SIGHUP, so one of these has if the command ended by itself.
func (o outcome) isToldToEnd() bool {
	return o.Told == syscall.SIGTERM ||
		!o.Late && slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}, o.Told)
}

// lead runs the command for one term.
func (a *app) lead(ctx context.Context, client *zkrecipes.Client, election *zkrecipes.Election, value string, m *command) (outcome, error) {
	g, err := guard.Start()
	if err != nil {
		return outcome{}, &failure{exitSoftware, err}
	}
	var term *zkrecipes.Term
	err = a.waiting(ctx, func(ctx context.Context) (err error) {
		defer a.sayWhoHolds(ctx, client, election.Path())()
		term, err = election.Campaign(ctx, []byte(value))
		return err
	})
	if err != nil {
		g.Close()
		if term != nil { // a signal came as the election was won
			_ = term.Resign()
		}
		return outcome{}, err
	}
	return a.hold(client, g, heldTerm(term), m, nil, nil)
}
