//go:build unix

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// command is the command line of zkr lock, elect and job: a path, and a command that is to be run.
type command struct {
	shell    string // -c
	grace    time.Duration
	isGrace  bool // --grace was given
	lostCode int
	at       string // the path
	path     string // of the executable
	args     []string
}

// runsCommand is the annotation of commands of zkr that run one.
const runsCommand = "runs a command"

func (m *command) addFlags(c *cobra.Command) {
	c.Annotations = map[string]string{runsCommand: ""}
	c.Args = m.parse
	c.Flags().StringVarP(&m.shell, "command", "c", "", "run this string with /bin/sh; arguments after -- are $0, $1, ..")
	c.Flags().Var(durationFrom(0, &m.grace), "grace", "time from SIGTERM to SIGKILL if the connection is lost (default: a quarter of the session timeout)")
	m.lostCode = exitLost
	c.Flags().Var(exitStatus(&m.lostCode), "lost-exit-code", "exit status if the lock is lost while the command runs")
}

// setArgs sets the arguments of zkr. If they have a command to run, flags end at PATH, and go on in parse.
func setArgs(root *cobra.Command, args []string) {
	root.SetArgs(args)
	if c, _, err := root.Find(args); err == nil {
		if _, runs := c.Annotations[runsCommand]; runs {
			c.Flags().SetInterspersed(false)
		}
	}
}

// parse parses "PATH [flags] [--] COMMAND [ARG..]", and looks for the command, before anything is
// locked. What comes behind COMMAND is not zkr's, whatever it looks like.
func (m *command) parse(c *cobra.Command, args []string) (err error) {
	if len(args) == 0 || c.ArgsLenAtDash() == 0 {
		return failf(exitUsage, "PATH comes first, before -- (usage: %s)", c.UseLine())
	}
	m.at, m.args = args[0], args[1:]
	if len(m.args) > 0 {
		if err := c.ParseFlags(m.args); err != nil {
			return err
		}
		m.args = c.Flags().Args()
	}
	if help, _ := c.Flags().GetBool("help"); help {
		return pflag.ErrHelp
	}
	m.isGrace = c.Flags().Changed("grace")
	if c.Flags().Changed("command") {
		m.args = append([]string{"/bin/sh", "-c", m.shell}, m.args...)
	}
	if len(m.args) == 0 {
		return failf(exitUsage, "there is no command after PATH (usage: %s)", c.UseLine())
	}
	if m.path, err = exec.LookPath(m.args[0]); err != nil {
		return cannotRun(m.args[0], err)
	}
	return nil
}

// cannotRun returns a failure with the exit status that shells use.
func cannotRun(name string, err error) error {
	code := exitCannotExec
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return failf(code, "%q: %w", name, err)
}

// connect connects, unless a signal comes, and checks the grace: while all is well, a session is known to
// live for two thirds of its timeout at least, so a longer grace would end commands for nothing.
func (a *app) connect(ctx context.Context, m *command) (client *zkrecipes.Client, err error) {
	err = a.waiting(ctx, func(ctx context.Context) error {
		if client, err = a.dial(ctx); err != nil {
			return err
		}
		if timeout := client.Status().Timeout; timeout > 0 && m.grace > timeout/2 {
			return failf(exitUsage, "--grace is %v, and must be from 0 to half of the session timeout, which is %v", m.grace, timeout)
		}
		return nil
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// graceIn returns the grace in a session with that timeout, which may be shorter than that of the first.
func (m *command) graceIn(timeout time.Duration) time.Duration {
	if !m.isGrace {
		return timeout / 4
	}
	return min(m.grace, timeout/2)
}

// lease is what a recipe grants: a Lease, a SlotLease or a Term.
type lease interface {
	guard.Hold
	Path() string
	Token() zkrecipes.Token
	Err() error
}

// held is what a command holds while it runs.
type held struct {
	lease
	place   string // its znode
	release func() error
	env     []string     // what else the command finds in its environment
	done    func() error // called before release if the command has succeeded, unless nil
}

func heldLease(l *zkrecipes.Lease) *held {
	return &held{lease: l, place: l.Check().Path, release: l.Release}
}

// environ returns the environment with what the command should know of the hold. It replaces
// what a zkr around this one has set, and leaves out secrets that are zkr's.
func (h *held) environ(session view.Session) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"ZKR_PATH", "ZKR_TOKEN", "ZKR_PLACE", "ZKR_SLOT", "ZKR_SESSION", "ZKR_PERIOD", "ZKR_AUTH", "ZKR_SASL_PASSWORD"}, name)
	})
	env = append(env,
		"ZKR_PATH="+h.Path(),
		"ZKR_SESSION="+session.String(),
		"ZKR_TOKEN="+strconv.FormatInt(int64(h.Token()), 10),
		"ZKR_PLACE="+path.Base(h.place))
	return append(env, h.env...)
}

// outcome says how a command that was held has ended.
type outcome struct {
	guard.Result
	lost error // why the hold was lost, or nil
}

// code returns the exit status that the command's end leads to.
func (o outcome) code() int {
	if o.Signal != 0 {
		return exitSignal + o.Signal
	}
	return o.Code
}

// underHold has take wait for something at the path, and runs the command while that is held.
func (a *app) underHold(ctx context.Context, client *zkrecipes.Client, m *command, path string, take func(context.Context) (*held, error)) (outcome, error) {
	g, err := guard.Start() // so it is ready by the time that the lock is held
	if err != nil {
		return outcome{}, &failure{exitSoftware, err}
	}
	var h *held
	err = a.waiting(ctx, func(ctx context.Context) (err error) {
		defer a.sayWhoHolds(ctx, client, path)()
		h, err = take(ctx)
		return err
	})
	if err == nil {
		return a.hold(client, g, h, m)
	}
	g.Close()
	if h != nil { // a signal came as it was granted
		_ = h.release()
	}
	return outcome{}, err
}

// hold runs the command while h is held.
func (a *app) hold(client *zkrecipes.Client, g *guard.Guard, h *held, m *command) (outcome, error) {
	status := client.Status()
	timeout := cmp.Or(status.Timeout, time.Second) // between two sessions: the hold is over
	res, err := g.Run(h, guard.Command{
		Path: m.path, Args: m.args, Env: h.environ(view.Session(status.Session)),
		Grace: m.graceIn(timeout), Margin: timeout / 50, Signals: a.signals,
		Say: func(text string) { fmt.Fprintf(a.stderr, "\r\nzkr: %s: %s\r\n", h.Path(), text) },
	})
	if err != nil {
		_ = h.release()
		return outcome{}, cannotRun(m.args[0], err)
	}
	o := outcome{Result: res, lost: h.Err()}
	if o.lost == nil && res.Late {
		o.lost = errors.New("the servers did not answer for so long that the lock could be lost")
	}
	if h.done != nil && o.lost == nil && o.code() == 0 {
		err = h.done()
	}
	released := h.release()
	switch {
	case errors.Is(err, zkrecipes.ErrLost):
		o.lost = err
	case err != nil:
		return o, err
	case errors.Is(released, zkrecipes.ErrLost):
		o.lost = released
	case released != nil && o.lost == nil:
		a.complain(0, fmt.Errorf("release %s: %w", h.Path(), released))
	}
	return o, nil
}

// failLost returns the failure of a command whose lock was lost.
func (m *command) failLost(o outcome) error {
	err := o.lost
	if e := (*zkrecipes.Error)(nil); errors.As(err, &e) {
		err = e.Err // the path is named once
	}
	return failf(m.lostCode, "%s: lost while the command ran: %w", m.at, err)
}
