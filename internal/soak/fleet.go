package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// fleet are the worker processes, which are copies of this program.
type fleet struct {
	*soak

	mu      sync.Mutex
	running map[int]*ship
	lives   map[int]int
	killed  int
	figures map[int]Figures // the newest
	first   map[int]Figures // of each process's first life, after a while
	expired int             // sessions, of lives that are over

	abandoned chan struct{} // closed when a server does not serve, for good
	abandon   func()
}

// ship is one process.
type ship struct {
	life   int
	cmd    *exec.Cmd
	input  io.WriteCloser
	done   chan struct{} // closed when it has ended and all of its reports are read
	rested chan struct{} // closed when its workers have ended
	doomed bool          // its end is no surprise
	heard  time.Duration // until when it has reported what happened
}

func newFleet(s *soak) *fleet {
	f := &fleet{
		soak: s, running: map[int]*ship{}, lives: map[int]int{}, figures: map[int]Figures{}, first: map[int]Figures{},
		abandoned: make(chan struct{}),
	}
	f.abandon = sync.OnceFunc(func() { close(f.abandoned) })
	return f
}

// start starts a process, or starts it again.
func (f *fleet) start(number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives[number]++
	s := &ship{life: f.lives[number], done: make(chan struct{}), rested: make(chan struct{})}
	params, err := json.Marshal(Params{
		Process: number, Life: s.life, Servers: f.ensemble.Addrs(),
		Start: f.soak.start, Seed: f.seed, Members: f.processes, Operator: number == 1,
	})
	if err != nil {
		panic(err) // a type that has no JSON
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s.cmd = exec.Command(self, "worker", string(params))
	s.cmd.Stderr = os.Stderr
	output, err := s.cmd.StdoutPipe()
	if err == nil {
		s.input, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		f.accuse(number, fmt.Sprint("cannot be started: ", err))
		return
	}
	s.heard = f.now()
	f.running[number] = s
	f.court.take(judge.Event{Kind: judge.Started, Process: number, Life: s.life})
	go f.follow(number, s, output) // ends with the process; halt and kill wait for it
}

// follow reads the reports of a process until it ends.
func (f *fleet) follow(number int, s *ship, output io.Reader) {
	defer close(s.done)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			f.accuse(number, fmt.Sprintf("wrote %q", lines.Text()))
			continue
		}
		if r.Event != nil {
			f.court.take(*r.Event)
		}
		f.mu.Lock()
		s.heard = r.At
		f.mu.Unlock()
		if r.Figures != nil {
			f.note(number, *r.Figures)
		}
		if r.Rested {
			close(s.rested)
		}
	}
	err := s.cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expired += f.figures[number].Sessions
	if err != nil && !s.doomed {
		f.accuse(number, fmt.Sprint("ended: ", err))
	}
}

// reported returns until when all processes have reported what happened. A process that is stopped
// or hangs is waited for, at most maxReportDelay.
func (f *fleet) reported() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	least := now
	for _, s := range f.running {
		select {
		case <-s.done:
		default:
			least = min(least, s.heard)
		}
	}
	return max(least-reportDelay, now-maxReportDelay)
}

func (f *fleet) note(number int, figures Figures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.figures[number] = figures
	if _, ok := f.first[number]; !ok {
		f.first[number] = figures
	}
	if figures.Last && figures.Goroutines > figures.Before {
		f.accuse(number, fmt.Sprintf("%d goroutines are left behind by a closed client", figures.Goroutines-figures.Before))
	}
}

func (f *fleet) accuse(number int, text string) {
	f.court.do(func(j *judge.Judge) { j.Accuse(f.now(), "process", "", fmt.Sprintf("process %d: %s", number, text)) })
}

func (f *fleet) ship(number int) *ship {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[number]
}

// suspend stops a process; resume lets it go on.
func (f *fleet) suspend(number int) {
	s := f.ship(number)
	f.court.take(judge.Event{Kind: judge.Stopped, Process: number, Life: s.life})
	s.cmd.Process.Signal(syscall.SIGSTOP)
}

func (f *fleet) resume(number int) {
	s := f.ship(number)
	s.cmd.Process.Signal(syscall.SIGCONT)
	f.court.take(judge.Event{Kind: judge.Resumed, Process: number, Life: s.life})
}

// kill ends a process at once, and waits until it has ended.
func (f *fleet) kill(number int) {
	s := f.ship(number)
	f.mu.Lock()
	s.doomed = true
	f.killed++
	f.mu.Unlock()
	s.cmd.Process.Kill()
	<-s.done
	f.court.take(judge.Event{Kind: judge.Killed, Process: number, Life: s.life})
}

// retire ends a process as a deployment does, and waits until it has ended. It may have to wait for the
// servers, too.
func (f *fleet) retire(number int) {
	s := f.ship(number)
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.input.Close() // so that no goroutine of its own is counted as a client's
	f.awaitEnd(number, s, time.After(startBound+time.Minute))
	f.court.take(judge.Event{Kind: judge.Ended, Process: number, Life: s.life})
}

func (f *fleet) kills() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.killed
}

// send sends a line to all processes.
func (f *fleet) send(line string) {
	for number := range f.processes {
		io.WriteString(f.ship(number+1).input, line+"\n")
	}
}

// rest ends the workers of all processes, which keep their sessions, and waits until they have
// given back everything.
func (f *fleet) rest(ctx context.Context) {
	f.court.take(judge.Event{Kind: judge.Resting})
	f.send("rest")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for number := range f.processes {
		select {
		case <-f.ship(number + 1).rested:
		case <-f.ship(number + 1).done:
		case <-ctx.Done(): // stop says so
		}
	}
}

// stop ends all processes. One that does not end in time prints its goroutines.
func (f *fleet) stop() {
	f.court.take(judge.Event{Kind: judge.Resting})
	for number := range f.processes {
		f.ship(number + 1).input.Close()
	}
	late := time.After(time.Minute)
	for number := range f.processes {
		f.awaitEnd(number+1, f.ship(number+1), late)
	}
}

// awaitEnd waits for the end of a process that was told to end. If a server does not serve, the client may
// be unable to close its session, so the process is killed.
func (f *fleet) awaitEnd(number int, s *ship, late <-chan time.Time) {
	select {
	case <-s.done:
	case <-f.abandoned:
		f.kill(number)
	case <-late:
		f.accuse(number, "does not end; its goroutines:")
		s.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines and exits
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
		}
		s.cmd.Process.Kill()
		<-s.done
	}
}
