package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Worker is a process to start: its name in errors, its role and the parameters
// of that, see Play.
type Worker struct {
	Name   string
	Role   string
	Params any
}

// Workers returns n workers of a role. Their names are the role and a letter each.
func Workers(n int, role string, params func(i int) any) (workers []Worker) {
	for i := range n {
		workers = append(workers, Worker{role + " " + Letter(i), role, params(i)})
	}
	return workers
}

// Action is what is to be done to a worker, or to all.
type Action int

const (
	Nothing Action = iota
	Kill           // in a way that it cannot notice (SIGKILL). The run goes on.
	Freeze         // it stands still until Thaw, in a way that it cannot notice (SIGSTOP)
	Thaw
	Upgrade // stop it, as the system does (SIGTERM), and start it again when it has ended
	End     // tell all workers to stop
)

// ErrInterrupted is what Run returns when its context has ended.
var ErrInterrupted = errors.New("interrupted")

// Run runs a program's workers, and then prints the verdict on what they did.
//
// It starts the workers and blocks until all have ended. take gets what they
// Tell, in the order in which they did, and returns what is to be done to which
// worker, given by its index. When ctx ends or a worker fails, Run stops the
// others. In every case settle then judges the run, for as long as half
// a minute even if ctx has ended; complete says that nothing went wrong so far.
func Run[R any](ctx context.Context, workers []Worker, take func(R) (do Action, worker int),
	settle func(ctx context.Context, complete bool) (verdict string, err error)) error {
	runErr := run(ctx, workers, take)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	verdict, err := settle(ctx, runErr == nil)
	if err == nil {
		fmt.Printf("\n%s\n", verdict)
	}
	return errors.Join(runErr, err)
}

// crew are the workers of a run.
type crew struct {
	processes []atomic.Pointer[os.Process] // nil: not started yet
	killed    []atomic.Bool
	again     []atomic.Bool // to be started again when it has ended
	leash     *os.File
	failed    error // of try

	mu      sync.Mutex
	stopped bool // no worker is to stand still any more
}

// do does something to a worker. If it cannot, it ends the run.
func (c *crew) do(what Action, worker int) {
	if err := c.try(what, worker); err != nil {
		c.failed = errors.Join(c.failed, err)
		c.stop()
	}
}

func (c *crew) try(what Action, worker int) error {
	switch what {
	case Kill:
		c.killed[worker].Store(true)
		c.processes[worker].Load().Kill()
	case Freeze:
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.stopped {
			return freeze(c.processes[worker].Load())
		}
	case Thaw:
		_ = thaw(c.processes[worker].Load()) // an error if it was stopped meanwhile
	case Upgrade:
		c.again[worker].Store(true)
		return c.processes[worker].Load().Signal(syscall.SIGTERM)
	case End:
		c.stop()
	}
	return nil
}

// stop tells all workers to stop, also those that stand still.
func (c *crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.leash.Close()
	for i := range c.processes {
		if p := c.processes[i].Load(); p != nil {
			_ = thaw(p) // an error if it has ended
		}
	}
}

func run[R any](ctx context.Context, workers []Worker, take func(R) (do Action, worker int)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// All workers write to one pipe. It keeps their lines in order, and a short
	// line is never torn apart.
	reports, output, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	// And all read from one, to which nothing is ever written: its end tells them
	// to stop. It also ends when this process does, even if it is killed.
	input, leash, err := os.Pipe()
	if err != nil {
		output.Close()
		return err
	}
	defer input.Close()
	crew := &crew{
		processes: make([]atomic.Pointer[os.Process], len(workers)),
		killed:    make([]atomic.Bool, len(workers)),
		again:     make([]atomic.Bool, len(workers)),
		leash:     leash,
	}
	defer crew.stop()
	defer context.AfterFunc(ctx, crew.stop)()

	ends := make([]error, len(workers))
	var running sync.WaitGroup
	for i, w := range workers {
		start := func() (*exec.Cmd, error) {
			params, err := json.Marshal(w.Params)
			if err != nil {
				panic(err) // a type that has no JSON
			}
			cmd := exec.Command(self, w.Role, string(params))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, os.Stderr
			err = cmd.Start()
			crew.processes[i].Store(cmd.Process)
			return cmd, err
		}
		cmd, err := start()
		if ends[i] = err; err != nil {
			crew.stop()
			break
		}
		running.Go(func() {
			err := cmd.Wait()
			for err == nil && crew.again[i].Swap(false) {
				if cmd, err = start(); err == nil {
					err = cmd.Wait()
				}
			}
			if err != nil && !crew.killed[i].Load() {
				ends[i] = fmt.Errorf("%s: %w", w.Name, err)
				crew.stop()
			}
		})
	}
	go func() { // so that reports ends with the last worker
		running.Wait()
		output.Close()
	}()

	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var r R
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintf(os.Stderr, "a worker wrote %q\n", lines.Text())
			continue
		}
		crew.do(take(r))
	}
	running.Wait()
	err = errors.Join(errors.Join(ends...), crew.failed, lines.Err())
	if ctx.Err() != nil {
		err = errors.Join(err, ErrInterrupted)
	}
	return err
}

// Tell sends a report from a worker to its parent. In JSON it must be shorter
// than 512 bytes.
func Tell(report any) {
	line, err := json.Marshal(report)
	if err != nil {
		panic(err) // a type that has no JSON
	}
	os.Stdout.Write(append(line, '\n')) // without a parent the process ends here
}
