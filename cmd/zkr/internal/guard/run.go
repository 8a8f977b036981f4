//go:build unix

package guard

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hold is what the command needs to be held while it runs: a Lease, a SlotLease or a Term.
type Hold interface {
	Context(parent context.Context) context.Context
	ValidUntil() time.Time
}

// Command is what to run, and on what terms.
type Command struct {
	Path string   // of the executable
	Args []string // the first is the command's name
	Env  []string
	// Grace is the time from SIGTERM to SIGKILL, which comes Margin before the end of the
	// hold. If the guard has not obeyed after half of Margin, it is killed.
	Grace, Margin time.Duration
	Signals       <-chan os.Signal  // to be passed on
	Say           func(text string) // tells the user something, while the command may have the terminal
}

// Result says how a command ended.
type Result struct {
	Code   int // exit status, if Signal is 0
	Signal int // that ended the command, or 0
	// Late: the guard has ended the command, or not even started it, because the hold was over or about
	// to be.
	Late bool
	// Told is the last signal of Ending that was passed on, or 0. After SIGTERM it stays that.
	Told syscall.Signal
}

// answer is how long a guard may take to kill a command whose hold was lost.
const answer = 200 * time.Millisecond

// Guard is a guard process that has not run its command yet, or runs it.
type Guard struct {
	process *os.Process
	to      *os.File
	reports <-chan report // closed when it has ended
}

// Start starts a guard. It does nothing yet, so it can be started while the caller waits for
// the lock. Call Run or Close.
func Start() (*Guard, error) {
	if err := adoptOrphans(); err != nil { // for the day on which the guard is killed
		return nil, err
	}
	self, err := executable()
	if err != nil {
		return nil, err
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	from, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	defer theirOut.Close()
	process, err := fork(self, theirIn, theirOut)
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, to.Close(), from.Close()))
	}
	return &Guard{process, to, receive[report](from)}, nil
}

// fork starts the guard process. It inherits the files under their numbers, so that the numbers
// of those that the user has opened for the command stay.
func fork(self string, files ...*os.File) (*os.Process, error) {
	args := []string{"zkr", role}
	for _, f := range files {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return nil, err
		}
		args = append(args, fmt.Sprint(f.Fd()))
	}
	return os.StartProcess(self, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
}

// Close ends a guard that has not run its command.
func (g *Guard) Close() {
	g.to.Close()
	for range g.reports {
	}
	_, _ = g.process.Wait()
}

// Run runs the command. It returns when the command, and all that it has started, have ended:
// on Linux all descendants, elsewhere the process group. The guard sends SIGTERM and SIGKILL
// when the hold's time is over, and Run has it send SIGKILL at once when the hold has ended.
// The error is a syscall.Errno if the command could not be started. Call Run once, and while no other
// guard runs: if the guard dies, Run kills all descendants of this process.
func (g *Guard) Run(hold Hold, cmd Command) (Result, error) {
	r := &runner{Guard: g, cmd: cmd, hold: hold, until: hold.ValidUntil(), requests: make(chan request, backlog)}
	var writing sync.WaitGroup
	writing.Go(func() {
		e := gob.NewEncoder(g.to)
		for q := range r.requests {
			_ = e.Encode(q) // if the guard has died, its exit says so
		}
	})
	defer writing.Wait()
	defer g.Close()
	defer close(r.requests)
	r.terminal.lent = r.terminal.isFree()
	defer r.terminal.takeBack()
	r.send(request{Run: &cmd, Deadline: r.deadline(), Foreground: r.terminal.lent})
	return r.wait(hold.Context(context.Background()))
}

// runner is a call of Run.
type runner struct {
	*Guard
	cmd      Command
	hold     Hold
	until    time.Time // the last end of the hold that the guard knows
	requests chan request
	group    int // of the command
	terminal terminal
	told     syscall.Signal
	wants    bool      // the command was stopped because it wants the terminal
	said     time.Time // when something was said last
	late     bool      // the hold is lost, or the guard did not obey in time, and was killed
}

// backlog is how many requests a guard may leave unread, beside those that the pipe has room for: one
// that has been stopped for long, or that reads a long command late on a loaded machine.
const backlog = 1000

// send sends a request. It does not wait, because the caller has to watch the deadline.
func (r *runner) send(q request) {
	select {
	case r.requests <- q:
	default:
		r.killGuard()
	}
}

// deadline returns when the command must be dead.
func (r *runner) deadline() int64 { return at(r.until.Add(-r.cmd.Margin)) }

// wait passes signals and deadlines on until the command has ended.
func (r *runner) wait(ctx context.Context) (Result, error) {
	suspend := make(chan os.Signal, 1)
	if keys := heeded(syscall.SIGTSTP); len(keys) > 0 {
		signal.Notify(suspend, keys...)
		defer signal.Reset(keys...)
	}
	renew := time.NewTicker(max(time.Millisecond, min(r.cmd.Margin/4, 100*time.Millisecond)))
	defer renew.Stop()
	lost := ctx.Done()
	var overdue <-chan time.Time
	for {
		select {
		case rep, ok := <-r.reports:
			switch {
			case !ok:
				_, _ = r.process.Wait()
				sweep(r.group)
				return Result{Signal: int(syscall.SIGKILL), Late: r.late, Told: r.told}, nil
			case rep.Ended != nil:
				rep.Ended.Told = r.told
				return *rep.Ended, nil
			case rep.Failed != 0:
				return Result{}, syscall.Errno(rep.Failed)
			case rep.Started != 0:
				r.group = rep.Started
			case rep.Stopped != 0:
				r.stopped(syscall.Signal(rep.Stopped))
			}
		case s := <-r.cmd.Signals:
			r.forward(s.(syscall.Signal))
		case <-suspend: // the terminal is that of a pipeline, whose other commands have stopped
			r.say(noSuspend)
			_ = syscall.Kill(0, syscall.SIGCONT)
		case <-renew.C:
			r.renew()
			r.satisfy()
			if time.Until(r.until) < r.cmd.Margin/2 {
				r.killGuard()
			}
		case <-lost:
			lost, r.late = nil, true
			r.send(request{Kill: true})
			overdue = time.After(answer)
		case <-overdue:
			r.killGuard()
		}
	}
}

// killGuard kills a guard that does not obey, because it is stopped for example. On Linux the
// kernel kills the command then.
func (r *runner) killGuard() {
	r.late = true
	_ = r.process.Kill()
}

// noSuspend is for a user who presses Ctrl-Z. A shell takes the terminal back from a job when all
// of its processes have stopped. But if the caller stopped, its session would expire.
const noSuspend = "it cannot be suspended while it holds the lock, which would be lost"

// stopped does what a command needs that was stopped. One that used the terminal without having
// it, as the first command of a pipeline, gets it if it is the caller's to lend, or once that is so.
// One that the user suspends goes on. Editors stop themselves, some by SIGSTOP. Without a terminal
// it is the business of whoever has stopped it.
func (r *runner) stopped(by syscall.Signal) {
	usesTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case usesTerminal:
		r.wants = true
		if r.satisfy(); r.wants {
			r.say("the command has stopped, since it wants the terminal: bring this job to the foreground (fg)")
		}
	case r.terminal.lent:
		r.say(noSuspend)
		r.send(request{Signal: int(syscall.SIGCONT)})
	}
}

// satisfy lends the terminal to a command that wants it, if the caller has it by now. A shell sends
// no signal when it brings a job to the foreground that runs.
func (r *runner) satisfy() {
	if r.wants && r.terminal.lend(r.group) {
		r.wants = false
		r.send(request{Signal: int(syscall.SIGCONT)})
	}
}

// say tells the user something, once a second at most: a command may stop itself again and again.
func (r *runner) say(text string) {
	if r.cmd.Say == nil || time.Since(r.said) < time.Second {
		return
	}
	r.said = time.Now()
	signal.Ignore(syscall.SIGTTOU) // which stty tostop makes of an output in the background
	defer signal.Reset(syscall.SIGTTOU)
	r.cmd.Say(text)
}

// forward passes a signal on. SIGCONT also comes when a shell puts the caller into the
// foreground again.
func (r *runner) forward(s syscall.Signal) {
	switch {
	case s == syscall.SIGCONT && r.terminal.isFree():
		if r.terminal.lend(r.group) {
			r.wants = false
		}
	case s != syscall.SIGCONT && s != syscall.SIGWINCH && r.told != syscall.SIGTERM:
		r.told = s
	}
	r.send(request{Signal: int(s)})
}

// renew tells the guard until when the hold lasts, if that has changed. A hold that has ended
// is told by its context.
func (r *runner) renew() {
	if until := r.hold.ValidUntil(); !until.Equal(r.until) && !until.IsZero() {
		r.until = until
		r.send(request{Deadline: r.deadline()})
	}
}

// sweep kills and reaps all that a dead guard has left to this process. On systems other than
// Linux that is the command's process group, which is not this process's to reap.
func sweep(group int) {
	for {
		killTree(group)
		switch pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case errors.Is(err, syscall.ECHILD):
			return
		case pid == 0:
			time.Sleep(kill)
		}
	}
}
