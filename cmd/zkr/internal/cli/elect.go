//go:build unix

package cli

import (
	"context"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
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
		RunE:    func(c *cobra.Command, _ []string) error { return a.runElect(c.Context(), m, value) },
	}
	m.addFlags(c)
	c.Flags().StringVar(&value, "value", "", "what others see of the leader, such as an address")
	return c
}

// runElect leads until the command ends by itself.
func (a *app) runElect(ctx context.Context, m *command, value string) error {
	client, err := a.connect(ctx, m)
	if err != nil {
		return err
	}
	defer client.Close()
	election := zkrecipes.NewElection(client, m.at)
	for {
		o, err := a.underHold(ctx, client, m, m.at, func(ctx context.Context) (*held, error) {
			t, err := election.Campaign(ctx, []byte(value))
			if err != nil {
				return nil, err
			}
			return &held{lease: t, place: t.Checks()[0].Path, release: t.Resign}, nil
		})
		switch {
		case err != nil:
			return err
		case o.lost == nil:
			return exit(o.code())
		case o.isToldToEnd():
			return exit(exitSignal + int(o.Told))
		}
		a.complain(0, m.failLost(o))
	}
}

// isToldToEnd reports whether a signal has told zkr to end. SIGTERM has. Commands go on after others,
// as after SIGHUP, so one of these has if the command ended by itself.
func (o outcome) isToldToEnd() bool {
	return o.Told == syscall.SIGTERM ||
		!o.Late && slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}, o.Told)
}
