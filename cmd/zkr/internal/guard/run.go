//go:build unix

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
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
	// Late: the command was ended, or not even started, because the hold was over or about to
	// be.
	Late bool
	// Told is the last signal of Ending that was passed on, or 0. After SIGTERM it stays that.
	Told syscall.Signal
}

// answer is how long a guard may take to kill a command whose hold was lost.
const answer = 200 * time.Millisecond

// Guard is a guard process that has not run its command yet, or runs it.
type Guard struct {
	pid     int
	to      *os.File
	encoder *json.Encoder
	reports <-chan report
	exited  <-chan struct{}
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
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		ourOut.Close()
		return nil, err
	}
	defer theirOut.Close()
	pid, err := fork(self, theirIn, theirOut)
	if err != nil {
		ourOut.Close()
		ourIn.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	g := &Guard{pid: pid, to: ourOut, encoder: json.NewEncoder(ourOut)}
	g.listen(ourIn)
	return g, nil
}

// fork starts the guard process. It inherits the two descriptors under their numbers, so that
// the numbers of those that the user has opened for the command stay.
func fork(self string, in, out *os.File) (pid int, err error) {
	syscall.ForkLock.Lock() // no other child may inherit them
	fds := []uintptr{in.Fd(), out.Fd()}
	for _, fd := range fds {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			syscall.ForkLock.Unlock()
			return 0, err
		}
	}
	syscall.ForkLock.Unlock()
	defer func() {
		for _, fd := range fds {
			syscall.CloseOnExec(int(fd))
		}
	}()
	return syscall.ForkExec(self, []string{"zkr", role, strconv.Itoa(int(fds[0])), strconv.Itoa(int(fds[1]))},
		&syscall.ProcAttr{
			Env:   os.Environ(),
			Files: []uintptr{0, 1, 2},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
}

// listen receives reports until the guard has ended.
func (g *Guard) listen(in *os.File) {
	reports, exited := make(chan report), make(chan struct{})
	g.reports, g.exited = reports, exited
	go func() {
		defer in.Close()
		defer close(exited)
		for d := json.NewDecoder(in); ; {
			var r report
			if d.Decode(&r) != nil {
				break
			}
			reports <- r
		}
		wait(g.pid)
	}()
}

// wait reaps one process.
func wait(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// Close ends a guard that has not run its command.
func (g *Guard) Close() {
	g.to.Close()
	<-g.exited
}

// Run runs the command. It returns when the command, and all that it has started, have ended:
// on Linux all descendants, elsewhere the process group. The guard sends SIGTERM and SIGKILL
// when the hold's time is over, and Run has it send SIGKILL at once when the hold has ended.
// The error is a syscall.Errno if the command could not be started. Call Run once, and while no other
// guard runs: if the guard dies, Run kills all descendants of this process.
func (g *Guard) Run(hold Hold, cmd Command) (Result, error) {
	defer g.Close()
	ctx := hold.Context(context.Background())
	r := &runner{Guard: g, cmd: cmd, hold: hold}
	defer r.terminal.takeBack()
	first := r.validUntil()
	r.sent = first
	r.terminal.lent = r.terminal.isFree()
	r.start(ctx, &run{
		Path: []byte(cmd.Path), Args: convert[[]byte](cmd.Args), Env: convert[[]byte](cmd.Env),
		Grace: int64(cmd.Grace), Deadline: at(first), Foreground: r.terminal.lent,
	})
	return r.wait(ctx)
}

// runner is a call of Run.
type runner struct {
	*Guard
	cmd      Command
	hold     Hold
	sent     time.Time // the last end of the hold that the guard knows
	group    int       // of the command
	terminal terminal
	told     syscall.Signal
	wants    bool      // the command was stopped because it wants the terminal
	said     time.Time // when something was said last
	deaf     bool      // the guard did not obey in time, and was killed
}

// send sends a request. If the guard has died, its exit says so. One that has been stopped for so
// long that the pipe is full must not block the caller, who has to watch the deadline.
func (r *runner) send(q request) {
	_ = r.to.SetWriteDeadline(time.Now().Add(answer))
	r.encode(q)
}

func (r *runner) encode(q request) {
	if err := r.encoder.Encode(q); errors.Is(err, os.ErrDeadlineExceeded) {
		r.killGuard()
	}
}

// start sends the command. A long one does not fit into the pipe, and on a loaded machine the guard
// reads late. Nothing runs before it has read all, so it may do so until the hold ends.
func (r *runner) start(ctx context.Context, c *run) {
	deadline := time.Now().Add(answer)
	if r.sent.After(deadline) {
		deadline = r.sent
	}
	_ = r.to.SetWriteDeadline(deadline)
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		_ = r.to.SetWriteDeadline(time.Now())
	})
	r.encode(request{Run: c})
	if !stop() {
		<-expired
	}
}

func (r *runner) validUntil() time.Time { return r.hold.ValidUntil().Add(-r.cmd.Margin) }

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
	var deaf <-chan time.Time
	for {
		select {
		case rep := <-r.reports:
			if res, done, err := r.take(rep); done {
				return res, err
			}
		case s := <-r.cmd.Signals:
			r.forward(s.(syscall.Signal))
		case <-suspend: // the terminal is that of a pipeline, whose other commands have stopped
			r.say(noSuspend)
			_ = syscall.Kill(0, syscall.SIGCONT)
		case <-renew.C:
			r.renew()
			r.satisfy()
			if time.Since(r.sent) > r.cmd.Margin/2 {
				r.killGuard()
			}
		case <-lost:
			lost = nil
			r.send(request{Kill: true})
			deaf = time.After(answer)
		case <-deaf:
			r.killGuard()
		case <-r.exited:
			sweep(r.group)
			return Result{Signal: int(syscall.SIGKILL), Late: r.deaf || lost == nil, Told: r.told}, nil
		}
	}
}

// killGuard kills a guard that does not obey, because it is stopped for example. On Linux the
// kernel kills the command then.
func (r *runner) killGuard() {
	if !r.deaf {
		r.deaf = true
		_ = syscall.Kill(r.pid, syscall.SIGKILL)
	}
}

// take handles a report, and reports whether it is the last one.
func (r *runner) take(rep report) (res Result, done bool, err error) {
	switch {
	case rep.Started != 0:
		r.group = rep.Started
	case rep.Failed != 0:
		return Result{}, true, syscall.Errno(rep.Failed)
	case rep.Stopped != 0:
		r.stopped(syscall.Signal(rep.Stopped))
	case rep.Ended != nil:
		e := rep.Ended
		return Result{Code: e.Code, Signal: e.Signal, Late: e.Late, Told: r.told}, true, nil
	}
	return Result{}, false, nil
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
	if until := r.validUntil(); !until.Equal(r.sent) && !r.hold.ValidUntil().IsZero() {
		r.sent = until
		r.send(request{Deadline: at(until)})
	}
}

// sweep kills and reaps all that a dead guard has left to this process. On systems other than
// Linux that is the command's process group, which is not this process's to reap.
func sweep(group int) {
	killLeft(group)
	for {
		signalTree(syscall.SIGKILL, 0)
		switch pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case errors.Is(err, syscall.ECHILD):
			return
		case pid == 0:
			time.Sleep(kill)
		}
	}
}
