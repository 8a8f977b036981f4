package guard

import (
	"context"
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process has one guard at a time, so the tests run one after the other.

// TestMain lets the test binary be the guard, as zkr is.
func TestMain(m *testing.M) {
	if IsGuard(os.Args) {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

// hold is a Hold that the test ends.
type hold struct {
	ctx   context.Context
	lose  context.CancelFunc
	until time.Time
}

func holdFor(t *testing.T, d time.Duration) *hold {
	h := &hold{until: time.Now().Add(d)}
	h.ctx, h.lose = context.WithCancel(t.Context())
	return h
}

func (h *hold) Context(context.Context) context.Context { return h.ctx }

func (h *hold) ValidUntil() time.Time { return h.until }

// proc is a command that a guard runs.
type proc struct {
	t       *testing.T
	guard   *Guard
	dir     string // the command's output is in the file out
	signals chan os.Signal
	done    chan struct{}
	res     Result
	err     error
}

// runScript runs a script, which finds its directory in $0.
func runScript(t *testing.T, h Hold, script string, change func(*Command)) *proc {
	t.Helper()
	g, err := Start()
	require.NoError(t, err)
	return g.runScript(t, h, script, change)
}

func (g *Guard) runScript(t *testing.T, h Hold, script string, change func(*Command)) *proc {
	t.Helper()
	r := &proc{t: t, guard: g, dir: t.TempDir(), signals: make(chan os.Signal, 16), done: make(chan struct{})}
	cmd := Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script + ` >"$0/out"`, r.dir}, Env: os.Environ(),
		Grace: 300 * time.Millisecond, Margin: 400 * time.Millisecond, Signals: r.signals,
	}
	if change != nil {
		change(&cmd)
	}
	go func() {
		defer close(r.done)
		r.res, r.err = g.Run(h, cmd)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(g.process.Pid, syscall.SIGKILL)
		<-r.done
	})
	return r
}

// wait returns what Run has returned.
func (r *proc) wait() Result {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		require.Fail(r.t, "the command does not end")
	}
	require.NoError(r.t, r.err)
	return r.res
}

func (r *proc) output() string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "out"))
	return string(text)
}

func (r *proc) await(text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return strings.Contains(r.output(), text) }, time.Minute, time.Millisecond, "no %s", text)
}

// deaf is a script that ignores SIGTERM.
const deaf = `{ trap "echo TERM" TERM; echo began; while :; do sleep 0.01; done; }`

func TestArgumentsAndVariablesNeedNotBeUTF8(t *testing.T) {
	r := runScript(t, holdFor(t, time.Hour), `printf "%s %s" "$1" "$V"`, func(c *Command) {
		c.Args, c.Env = append(c.Args, "caf\xe9"), append(c.Env, "V=na\xefve")
	})
	require.Equal(t, Result{}, r.wait())
	require.Equal(t, "caf\xe9 na\xefve", r.output())
}

func TestAHoldThatIsLostKillsTheCommandAtOnce(t *testing.T) {
	h := holdFor(t, time.Hour)
	r := runScript(t, h, deaf, nil)
	r.await("began")
	h.lose()
	require.Equal(t, Result{Signal: 9, Late: true}, r.wait())
	require.NotContains(t, r.output(), "TERM")
}

func TestACommandWhoseTimeIsOverIsNotStarted(t *testing.T) {
	for _, h := range []*hold{holdFor(t, 400*time.Millisecond), {ctx: t.Context()}} { // the other one has ended
		r := runScript(t, h, "echo began", nil)
		got := r.wait()
		require.Contains(t, []int{0, 9}, got.Signal, "9: the guard was slow to say so, and was killed")
		require.Equal(t, Result{Signal: got.Signal, Late: true}, got)
		require.NoFileExists(t, filepath.Join(r.dir, "out"))
	}
}

func TestSignalsReachTheGroupAlsoWithoutItsFirstProcess(t *testing.T) {
	r := runScript(t, holdFor(t, time.Hour), `{ (trap "echo got; exit" USR1; while [ -e /proc/$$ ]; do sleep 0.01; done; echo alone; while :; do sleep 0.01; done) & :; }`, nil)
	r.await("alone")
	require.NoError(t, syscall.Kill(r.guard.process.Pid, syscall.SIGTERM), "which ends no guard")
	r.signals <- syscall.SIGWINCH // ends nothing, and is not noted
	r.signals <- syscall.SIGUSR1
	require.Equal(t, Result{Told: syscall.SIGUSR1}, r.wait())
	require.Contains(t, r.output(), "got")
}

// The pipe to a guard that is stopped for long is full one day. The caller must still see that the
// hold is lost.
func TestAGuardThatDoesNotReadBlocksNothing(t *testing.T) {
	r := runScript(t, holdFor(t, time.Hour), deaf, nil)
	r.await("began")
	require.NoError(t, syscall.Kill(r.guard.process.Pid, syscall.SIGSTOP))
	for range 100_000 {
		select {
		case r.signals <- syscall.SIGWINCH:
		case <-r.done:
		}
	}
	require.Equal(t, Result{Signal: 9, Late: true}, r.wait())
}

// runLong runs a command that does not fit into the pipe to its guard, which is stopped.
func runLong(t *testing.T, h Hold) *proc {
	t.Helper()
	g, err := Start()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(g.process.Pid, syscall.SIGSTOP))
	return g.runScript(t, h, "echo began", func(c *Command) {
		c.Env = append(c.Env, "LONG="+strings.Repeat("x", 100_000))
	})
}

// As on a loaded machine.
func TestAGuardThatReadsLateRunsALongCommand(t *testing.T) {
	r := runLong(t, holdFor(t, time.Hour))
	_ = exec.Command("sleep", "0.5").Run() // longer than answer; if the guard is killed, so is this
	_ = syscall.Kill(r.guard.process.Pid, syscall.SIGCONT)
	require.Equal(t, Result{}, r.wait())
	require.Equal(t, "began\n", r.output())
}

func TestALongCommandThatItsGuardHasNotReadEndsWithTheHold(t *testing.T) {
	h := holdFor(t, time.Hour)
	r := runLong(t, h)
	h.lose()
	require.Equal(t, Result{Signal: 9, Late: true}, r.wait())
	require.NoFileExists(t, filepath.Join(r.dir, "out"))
}

// Whoever sends SIGTERM wants an end, whatever follows.
func TestSIGTERMIsRemembered(t *testing.T) {
	// Not SIGHUP, SIGINT or SIGQUIT: a shell cannot trap what was ignored when it began, as by nohup.
	r := runScript(t, holdFor(t, time.Hour), `{ trap "echo TERM" TERM; trap "echo USR1" USR1; echo ready; while [ ! -e "$0/end" ]; do sleep 0.01; done; exit 0; }`, nil)
	r.await("ready")
	r.signals <- syscall.SIGTERM
	r.await("TERM")
	r.signals <- syscall.SIGUSR1
	r.await("USR1")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "end"), nil, 0o600))
	require.Equal(t, Result{Told: syscall.SIGTERM}, r.wait())
}

func TestAGuardThatRanNothingEndsWithClose(t *testing.T) {
	g, err := Start()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(g.process.Pid, 0))
	g.Close()
	require.ErrorIs(t, syscall.Kill(g.process.Pid, 0), syscall.ESRCH)
}

// The guard sleeps until something is due, but never so long that a suspended machine makes it late.
func TestPauses(t *testing.T) {
	in := func(d time.Duration) int64 { return now() + int64(d) }
	require.Equal(t, time.Hour, (&guard{}).pause(), "it waits for its command")
	require.Equal(t, look, (&guard{phase: running, deadline: in(time.Hour)}).pause())
	near := (&guard{phase: running, deadline: in(time.Second), grace: 900 * time.Millisecond}).pause()
	require.LessOrEqual(t, near, 100*time.Millisecond, "SIGTERM is due")
	require.LessOrEqual(t, (&guard{phase: ending, deadline: in(50 * time.Millisecond)}).pause(), 50*time.Millisecond)
	require.Zero(t, (&guard{phase: ending, deadline: in(-time.Second)}).pause())
	require.Equal(t, kill, (&guard{phase: killing}).pause())
	require.Equal(t, min(look, orphans), (&guard{phase: running, reaped: true, deadline: in(time.Hour)}).pause())
}

// The command has ended, and so its pid may be another descendant's.
func TestTheStatusOfTheCommandStays(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 3"}, &syscall.ProcAttr{})
	require.NoError(t, err)
	g := &guard{phase: running, out: gob.NewEncoder(io.Discard), group: pid, reaped: true, end: Result{Code: 5}}
	require.Eventually(t, func() bool { g.reap(); return g.phase == over }, time.Minute, time.Millisecond)
	require.Equal(t, Result{Code: 5}, g.end)
}
