//go:build unix

// Package cli is the command line of zkr.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
	"github.com/zkrecipes/zkrecipes/zkkrb5"
)

// app is one run of the program.
type app struct {
	config  config
	stdin   io.Reader
	stdout  *checked
	stderr  io.Writer
	signals chan os.Signal // those of guard.Forwarded
	runs    bool           // a command runs; errors before that are about its arguments
	krb5    *zkkrb5.Credentials
	servers []string // that dial has tried
	isTLS   bool
}

// Main runs the command line, and returns the exit status.
func Main(args []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, guard.Forwarded()...)
	a := &app{stdin: os.Stdin, stdout: &checked{Writer: os.Stdout}, stderr: os.Stderr, signals: signals}
	return a.run(args)
}

func (a *app) run(args []string) int {
	root := a.root()
	setArgs(root, args)
	err := root.ExecuteContext(context.Background())
	if a.krb5 != nil {
		_ = a.krb5.Close()
	}
	if a.stdout.err != nil && exitCode(err) <= exitFailure { // the command may be what has failed because of it
		err = failf(exitIO, "write the output: %w", a.stdout.err)
	}
	if err == nil {
		return 0
	}
	if !a.runs {
		_ = a.config.set(os.LookupEnv) // it may say in which form to complain
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{pick(a.runs, exitCode(err), exitUsage), err}
	}
	if f.err != nil {
		a.complain(f.code, err)
	}
	return f.code
}

// complaint is an error as it is printed.
type complaint struct {
	Error string `json:"error"`
	Exit  int    `json:"exit,omitempty"` // status
}

// complain writes about an error, which may quote what others have written. code is 0 if zkr goes on.
func (a *app) complain(code int, err error) {
	if a.isJSON() {
		_ = writeJSON(a.stderr, complaint{err.Error(), code})
		return
	}
	fmt.Fprintln(a.stderr, "zkr:", view.Printable([]byte(strings.TrimPrefix(err.Error(), "zkrecipes: "))))
}

// root returns the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "zkr",
		Short: "Locks, queues and elections on ZooKeeper, from a shell",
		Long: "zkr uses the recipes of github.com/zkrecipes/zkrecipes from a shell, and shows what happens in\n" +
			"them. --servers or $ZKR_SERVERS says where.\n\n" +
			"If something is stuck: zkr ls lists what is held and since when, zkr graph shows deadlocks, and\n" +
			"zkr describe PATH names the holder and says what you can do.",
		Version:       built(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(c.ValidateRequiredFlags(), c.ValidateFlagGroups()); err != nil {
				return err
			}
			a.runs = true
			if err := a.waiting(c.Context(), a.config.load); err != nil {
				return err
			}
			if a.config.output != "text" && !a.isJSON() {
				return failf(exitUsage, "output is %q, not text or json", a.config.output)
			}
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	a.config.addFlags(root.PersistentFlags())
	add := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	add("Look:", a.ls(), a.top(), a.serve(), a.graph(), a.who(), a.describe(), a.events())
	add("Run a command:", a.lock(), a.elect(), a.job())
	add("Look and change:", a.evict(), a.queue(), a.gate(), a.sem())
	root.AddCommand(a.version(), a.man())
	a.addCompletion(root)
	addTopics(root)
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return root
}

// group returns a command that has commands.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(commands...)
	return c
}

func (a *app) isJSON() bool { return a.config.output == "json" }

// print writes v as JSON, or has text write it.
func (a *app) print(v any, text func(w io.Writer)) error {
	if a.isJSON() {
		return writeJSON(a.stdout, v)
	}
	text(a.stdout)
	return a.stdout.err
}

// with connects, runs f and closes the Client. f's context ends with the signals that end
// a process.
func (a *app) with(c *cobra.Command, f func(context.Context, *zkrecipes.Client) error) error {
	return a.waiting(c.Context(), func(ctx context.Context) error {
		client, err := a.dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close() // what it cannot end ends with the session
		if _, ok := c.Annotations[drawsScreen]; !ok {
			defer a.sayLoss(ctx, client)()
		}
		return f(ctx, client)
	})
}

// on returns a RunE that connects, calls f with the arguments and closes the Client.
func (a *app) on(f func(context.Context, *zkrecipes.Client, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error { return f(ctx, client, args) })
	}
}

// waiting calls f, whose context ends with a signal that ends a process. Signals that come
// later are left to the caller.
func (a *app) waiting(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var got syscall.Signal
	done := beside(ctx, func(ctx context.Context) {
		for got == 0 {
			select {
			case s := <-a.signals:
				if s != syscall.SIGWINCH && s != syscall.SIGCONT {
					got = s.(syscall.Signal)
					stop()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	err := f(ctx)
	done()
	if got != 0 { // perhaps taken as f returned: nobody else will see it
		return exit(exitSignal + int(got))
	}
	return err
}
