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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// held is what a command holds while it runs.
type held struct {
	guard.Hold
	path    string
	token   zkrecipes.Token
	session int64
	place   string // the znode
	slots   []int
	err     func() error
	release func() error
}

func heldLease(l *zkrecipes.Lease) *held {
	return &held{Hold: l, path: l.Path(), token: l.Token(), place: l.Check().Path, err: l.Err, release: l.Release}
}

func heldSlots(l *zkrecipes.SlotLease) *held {
	return &held{
		Hold: l, path: l.Path(), token: l.Token(), place: l.Checks()[0].Path, slots: l.Slots(),
		err: l.Err, release: l.Release,
	}
}

func heldTerm(t *zkrecipes.Term) *held {
	return &held{Hold: t, path: t.Path(), token: t.Token(), place: t.Check().Path, err: t.Err, release: t.Resign}
}

// environ returns the environment with what the command should know of the hold. It replaces
// what a zkr around this one has set, and leaves out secrets that are zkr's.
func (h *held) environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"ZKR_PATH", "ZKR_TOKEN", "ZKR_PLACE", "ZKR_SLOT", "ZKR_SESSION", "ZKR_PERIOD", "ZKR_AUTH", "ZKR_SASL_PASSWORD"}, name)
	})
	env = append(env,
		"ZKR_PATH="+h.path,
		"ZKR_SESSION="+view.Session(h.session).String(),
		"ZKR_TOKEN="+strconv.FormatInt(int64(h.token), 10),
		"ZKR_PLACE="+path.Base(h.place))
	if len(h.slots) > 0 {
		env = append(env, "ZKR_SLOT="+strconv.Itoa(h.slots[0]))
	}
	return append(env, more...)
}

// command is the command line of zkr lock, elect and job that is to be run.
type command struct {
	shell    string // -c
	grace    time.Duration
	isGrace  bool // --grace was given
	lostCode status
	path     string
	args     []string
}

func (m *command) addFlags(c *cobra.Command) {
	c.Annotations = map[string]string{runsCommand: ""}
	c.Flags().StringVarP(&m.shell, "command", "c", "", "run this string with /bin/sh; arguments after -- are $0, $1, ..")
	c.Flags().DurationVar(&m.grace, "grace", 0, "time from SIGTERM to SIGKILL if the connection is lost (default: a quarter of the session timeout)")
	m.lostCode = exitLost
	c.Flags().Var(&m.lostCode, "lost-exit-code", "exit status if the lock is lost while the command runs")
}

// runsCommand is the annotation of commands of zkr whose second argument is a command to run.
const runsCommand = "runs a command"

// withDash returns the arguments of zkr with -- before those of a command to run. They are not zkr's,
// whatever they look like.
func withDash(root *cobra.Command, args []string) []string {
	c, rest, err := root.Find(args)
	if err != nil {
		return args
	}
	if _, runs := c.Annotations[runsCommand]; !runs {
		return args
	}
	operands := 0
	for i := 0; i < len(rest); i++ {
		switch arg := rest[i]; {
		case arg == "--":
			return args
		case len(arg) > 1 && arg[0] == '-':
			if takesNext(c, arg) {
				i++
			}
		case operands == 1:
			return slices.Concat([]string{c.Name()}, rest[:i], []string{"--"}, rest[i:])
		default:
			operands++
		}
	}
	return args
}

// takesNext reports whether the value of the flag, or of the last one of several short ones, is the
// next argument.
func takesNext(c *cobra.Command, arg string) bool {
	if name, isLong := strings.CutPrefix(arg, "--"); isLong {
		f := c.Flag(name) // none with =
		return f != nil && f.NoOptDefVal == ""
	}
	for i := 1; i < len(arg); i++ {
		f := cmp.Or(c.Flags().ShorthandLookup(arg[i:i+1]), c.InheritedFlags().ShorthandLookup(arg[i:i+1]))
		if f == nil || f.NoOptDefVal == "" {
			return f != nil && i == len(arg)-1
		}
	}
	return false
}

// parse splits "PATH -- command args" and looks for the command, before anything is locked.
func (m *command) parse(c *cobra.Command, args []string) (path string, err error) {
	dash := c.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	m.args = args[dash:]
	m.isGrace = c.Flags().Changed("grace")
	if c.Flags().Changed("command") {
		m.args = append([]string{"/bin/sh", "-c", m.shell}, m.args...)
	}
	switch {
	case dash != 1:
		return "", failf(exitUsage, "one path comes before --, not %d (usage: %s)", dash, c.UseLine())
	case len(m.args) == 0:
		return "", failf(exitUsage, "there is no command after -- (usage: %s)", c.UseLine())
	}
	if m.path, err = exec.LookPath(m.args[0]); err != nil {
		return "", cannotRun(m.args[0], err)
	}
	return args[0], nil
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

// graceFor returns the grace in a session with that timeout. While all is well, a session is
// known to live for two thirds of its timeout at least, so a longer grace would end commands
// for nothing.
func (m *command) graceFor(timeout time.Duration) (time.Duration, error) {
	switch {
	case !m.isGrace:
		return timeout / 4, nil
	case m.grace < 0 || m.grace > timeout/2:
		return 0, failf(exitUsage, "--grace is %v, and must be from 0 to half of the session timeout, which is %v", m.grace, timeout)
	}
	return m.grace, nil
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

// hold runs the command while h is held. after, if not nil, is called before the release if
// the command has succeeded.
func (a *app) hold(client *zkrecipes.Client, g *guard.Guard, h *held, m *command, env []string, after func() error) (outcome, error) {
	h.session = client.Status().Session
	timeout := client.Status().Timeout
	if timeout == 0 { // between two sessions: the hold is over
		timeout = time.Second
	}
	grace, err := m.graceFor(timeout)
	if err != nil {
		g.Close()
		return outcome{}, errors.Join(err, h.release())
	}
	res, err := g.Run(h, guard.Command{
		Path: m.path, Args: m.args, Env: h.environ(env...),
		Grace: grace, Margin: timeout / 50, Signals: a.signals,
		Say: func(text string) { fmt.Fprintf(a.stderr, "\r\nzkr: %s: %s\r\n", h.path, text) },
	})
	if err != nil {
		_ = h.release()
		return outcome{}, cannotRun(m.args[0], err)
	}
	o := outcome{Result: res, lost: h.err()}
	if o.lost == nil && res.Late {
		o.lost = errors.New("the servers did not answer for so long that the lock could be lost")
	}
	if after != nil && o.lost == nil && o.code() == 0 {
		if err := after(); errors.Is(err, zkrecipes.ErrLost) {
			o.lost = err
		} else if err != nil {
			_ = h.release()
			return o, err
		}
	}
	if err := h.release(); errors.Is(err, zkrecipes.ErrLost) {
		o.lost = err
	} else if err != nil && o.lost == nil {
		a.complain(exitFailure, fmt.Errorf("release %s: %w", h.path, err))
	}
	return o, nil
}

// end returns the error that leads to the exit status of a command that was held.
func (m *command) end(path string, o outcome, err error) error {
	switch {
	case err != nil:
		return err
	case o.lost != nil:
		return m.failLost(path, o)
	}
	return exit(o.code())
}

// failLost returns the failure of a command whose lock was lost.
func (m *command) failLost(path string, o outcome) error {
	err := o.lost
	if e := (*zkrecipes.Error)(nil); errors.As(err, &e) {
		err = e.Err // the path is named once
	}
	return failf(int(m.lostCode), "%s: lost while the command ran: %w", path, err)
}

// waiting calls f, whose context ends with a signal that ends a process. Signals that come
// later are left to the caller.
func (a *app) waiting(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan syscall.Signal, 1)
	go func() { ended <- a.endBySignal(ctx, stop) }()
	err := f(ctx)
	stop(nil)
	if sig := <-ended; sig != 0 { // perhaps taken as f returned: nobody else will see it
		return exit(exitSignal + int(sig))
	}
	return err
}
