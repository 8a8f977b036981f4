//go:build unix

// Package cli is the command line of zkr.
package cli

import (
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
	config         config
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        chan os.Signal // those of guard.Forwarded
	runs           bool           // a command runs; errors before that are about its arguments
	krb5           *zkkrb5.Credentials
	servers        []string // that dial has tried
	isTLS          bool
}

// Main runs the command line, and returns the exit status.
func Main(args []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, guard.Forwarded()...)
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, signals: signals}
	return a.run(args)
}

func (a *app) run(args []string) int {
	out := &checked{Writer: a.stdout}
	a.stdout = out
	root := a.root()
	root.SetArgs(withDash(root, args))
	err := root.ExecuteContext(context.Background())
	if a.krb5 != nil {
		_ = a.krb5.Close()
	}
	if out.err != nil && exitCode(err) <= exitFailure { // the command may be what has failed because of it
		err = failf(exitIO, "write the output: %w", out.err)
	}
	if err == nil {
		return 0
	}
	code := exitCode(err)
	var f *failure
	if !a.runs && !errors.As(err, &f) {
		code = exitUsage
	}
	if !errors.As(err, &f) || f.err != nil {
		a.complain(code, err)
	}
	return code
}

// complain writes about an error, which may quote what others have written.
func (a *app) complain(code int, err error) {
	if a.isJSON() {
		_ = encoder{a.stderr}.Encode(struct {
			Error string `json:"error"`
			Exit  int    `json:"exit"`
		}{err.Error(), code})
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
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := a.config.load(); err != nil {
				return err
			}
			if out := a.config.get("ZKR_OUTPUT"); out != "text" && out != "json" {
				return failf(exitUsage, "output is %q, not text or json", out)
			}
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	a.config.addFlags(root.PersistentFlags())
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"look", "Look:", []*cobra.Command{a.ls(), a.top(), a.serve(), a.graph(), a.who(), a.describe(), a.events()}},
		{"run", "Run a command:", []*cobra.Command{a.lock(), a.elect(), a.job()}},
		{"change", "Look and change:", []*cobra.Command{a.evict(), a.queue(), a.gate(), a.sem()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.version(), a.man())
	a.note(root)
	a.addTopics(root)
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return root
}

// note notes in each command that its arguments were right and that it runs.
func (a *app) note(c *cobra.Command) {
	a.addCompletion(c)
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.runs = true
			return run(c, args)
		}
	}
	if c.HasSubCommands() && c.HasParent() && c.RunE == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return failf(exitUsage, "unknown command %q for %q", args[0], c.CommandPath())
			}
			return c.Help()
		}
	}
	for _, sub := range c.Commands() {
		a.note(sub)
	}
}

func (a *app) isJSON() bool { return a.config.flags != nil && a.config.get("ZKR_OUTPUT") == "json" }

// print writes v as JSON, or has text write it.
func (a *app) print(v any, text func(w io.Writer)) error {
	if a.isJSON() {
		return encoder{a.stdout}.Encode(v)
	}
	text(a.stdout)
	if out, ok := a.stdout.(*checked); ok {
		return out.err
	}
	return nil
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

// signaled is the cause of a context that a signal has ended.
type signaled struct{ signal syscall.Signal }

func (s *signaled) Error() string { return s.signal.String() }

// endBySignal ends ctx at the first signal that ends a process, and returns it, or 0 if ctx ended
// before one came.
func (a *app) endBySignal(ctx context.Context, stop context.CancelCauseFunc) syscall.Signal {
	for {
		select {
		case s := <-a.signals:
			if sig := s.(syscall.Signal); sig != syscall.SIGWINCH && sig != syscall.SIGCONT {
				stop(&signaled{sig})
				return sig
			}
		case <-ctx.Done():
			return 0
		}
	}
}
