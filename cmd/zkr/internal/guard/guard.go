//go:build unix

package guard

import (
	"encoding/gob"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// role is the first argument of a guard process. Two descriptors follow: requests come from
// the first, and reports go to the second.
const role = "__guard"

// look is how often the guard looks at the clock: its timers stand still while the machine
// is suspended. kill is the pause between two rounds of SIGKILL.
const (
	look = 250 * time.Millisecond
	kill = 10 * time.Millisecond
)

// IsGuard reports whether the program was started as a guard.
func IsGuard(args []string) bool { return len(args) == 4 && args[1] == role }

// Main is the guard process. It returns its exit status.
func Main(args []string) int {
	// Pdeathsig counts the end of the thread that starts the command. The thread of a locked
	// goroutine that never returns before the process ends lives as long as the process.
	runtime.LockOSThread()
	var pipes [2]*os.File
	for i, arg := range args[2:] {
		fd, err := strconv.Atoi(arg)
		if err != nil {
			return 1
		}
		syscall.CloseOnExec(fd)
		pipes[i] = os.NewFile(uintptr(fd), "caller")
	}
	if err := adoptOrphans(); err != nil {
		return 1
	}
	// A signal for all processes of the terminal or of this name reaches the caller, too,
	// and the caller decides. These are caught, not ignored: the command would inherit that.
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, catchable()...)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	g := &guard{out: gob.NewEncoder(pipes[1])}
	g.serve(receive[request](pipes[0]), caught, children)
	return 0
}

// phase is how far the end of the command has come.
type phase int

const (
	idle    phase = iota // not started
	running              // started, and not ended by the guard
	ending               // SIGTERM was sent because of the deadline
	killing              // SIGKILL is sent until nothing is left
	over                 // nothing is left
)

// guard is the state of a guard process.
type guard struct {
	out      *gob.Encoder
	phase    phase
	group    int  // the command's process, and its group
	reaped   bool // the command itself has ended, and its pid may be taken
	deadline int64
	grace    time.Duration
	end      Result
}

// serve obeys the caller until the command and all that it has started have ended.
func (g *guard) serve(requests <-chan request, caught, children <-chan os.Signal) {
	timer := time.NewTimer(look)
	for g.phase != over {
		select {
		case r, ok := <-requests:
			switch {
			case ok:
				g.obey(r)
			case g.phase == idle: // the caller has ended
				g.phase = over
			default:
				requests, g.phase = nil, killing
			}
		case <-caught:
		case <-children:
			g.reap()
		case <-timer.C:
			g.reap()
		}
		g.advance()
		timer.Reset(g.pause())
	}
}

func (g *guard) obey(r request) {
	switch {
	case r.Run != nil:
		g.start(r)
	case r.Deadline != 0:
		g.deadline = r.Deadline
	case r.Signal != 0:
		g.signal(syscall.Signal(r.Signal))
	case r.Kill && g.phase != idle:
		g.end.Late = true
		g.phase = killing
	}
}

// start starts the command, unless its time is over.
func (g *guard) start(r request) {
	if time.Duration(r.Deadline-now()) <= r.Run.Grace {
		g.end.Late = true
		g.finish()
		return
	}
	pid, err := syscall.ForkExec(r.Run.Path, r.Run.Args, &syscall.ProcAttr{
		Env:   r.Run.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   attributes(r.Foreground),
	})
	if err != nil {
		code := syscall.EIO
		errors.As(err, &code)
		g.phase = over
		_ = g.out.Encode(report{Failed: int(code)})
		return
	}
	g.phase, g.group, g.deadline, g.grace = running, pid, r.Deadline, r.Run.Grace
	_ = g.out.Encode(report{Started: pid})
}

// signal sends a signal to the command's group. A group whose first process was reaped may be
// gone, and its number another one's, so then the processes are looked up.
func (g *guard) signal(sig syscall.Signal) {
	switch {
	case g.phase == idle:
	case g.reaped:
		signalTree(sig, g.group)
	default:
		_ = syscall.Kill(-g.group, sig)
	}
}

func (g *guard) left() time.Duration { return time.Duration(g.deadline - now()) }

// advance does what the deadline demands.
func (g *guard) advance() {
	left := g.left()
	if g.phase == running && left <= g.grace {
		g.phase, g.end.Late = ending, true
		g.signal(syscall.SIGTERM)
		g.signal(syscall.SIGCONT) // a stopped process does not see SIGTERM
	}
	if g.phase == ending && left <= 0 {
		g.phase = killing
	}
	if g.phase == killing {
		g.signal(syscall.SIGKILL) // the whole group at once, which no fork escapes
		killTree(g.group)
		g.reap()
	}
}

// pause returns for how long nothing is due.
func (g *guard) pause() time.Duration {
	left := g.left()
	switch g.phase {
	case idle:
		return time.Hour // a request is the next that happens
	case running:
		left -= g.grace
	case killing:
		return kill
	}
	if g.reaped {
		left = min(left, orphans)
	}
	return max(0, min(left, look))
}

// reap waits for the processes that have ended, and notes when none is left.
func (g *guard) reap() {
	for g.phase != idle && g.phase != over {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			if isAlone(g.group) {
				g.finish()
			}
			return
		case err != nil || pid == 0:
			return
		case pid == g.group && !g.reaped:
			g.note(status)
		}
	}
}

// note notes what has happened to the command itself.
func (g *guard) note(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		_ = g.out.Encode(report{Stopped: int(status.StopSignal())})
	case status.Exited():
		g.reaped, g.end.Code = true, status.ExitStatus()
	case status.Signaled():
		g.reaped, g.end.Signal = true, int(status.Signal())
	}
}

func (g *guard) finish() {
	g.phase = over
	_ = g.out.Encode(report{Ended: &g.end})
}
