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
)

// Worker is a process of this program: what errors call it, and its arguments.
type Worker struct {
	Name string
	Args []string
}

// ErrInterrupted is what Run returns when its context has ended.
var ErrInterrupted = errors.New("interrupted")

// ErrDone is the cause with which the parent ends the context of a run that has
// done all it had to: that is no interruption.
var ErrDone = errors.New("done")

// Run starts the workers and blocks until all have ended. When ctx ends, or one
// of them fails, it tells the others to stop. take is given what they Tell, in
// the order in which it was told; kill ends a worker, given by its index, in a
// way that it cannot notice (SIGKILL), which is then no failure.
func Run[R any](ctx context.Context, workers []Worker, take func(r R, kill func(worker int))) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// All workers write to one pipe: what they tell comes in the order in which
	// it was told, and a short line is never torn apart.
	reports, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	// And all read from one, to which nothing is ever written: its end tells them
	// to stop. It ends with this process too, however that goes.
	leash, held, err := os.Pipe()
	if err != nil {
		told.Close()
		return err
	}
	defer leash.Close()
	release := func() { held.Close() }
	defer release()
	defer context.AfterFunc(ctx, release)()

	processes := make([]*os.Process, len(workers))
	killed := make([]atomic.Bool, len(workers))
	ends := make([]error, len(workers))
	var running sync.WaitGroup
	for i, w := range workers {
		cmd := exec.Command(self, w.Args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = leash, told, os.Stderr
		if ends[i] = cmd.Start(); ends[i] != nil {
			release()
			break
		}
		processes[i] = cmd.Process
		running.Go(func() {
			if err := cmd.Wait(); err != nil && !killed[i].Load() {
				ends[i] = fmt.Errorf("%s: %w", w.Name, err)
				release()
			}
		})
	}
	told.Close() // so that reports ends with the last worker

	kill := func(worker int) {
		killed[worker].Store(true)
		processes[worker].Kill()
	}
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var r R
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintf(os.Stderr, "a worker said %q\n", lines.Text())
			continue
		}
		take(r, kill)
	}
	running.Wait()
	err = errors.Join(errors.Join(ends...), lines.Err())
	if ctx.Err() != nil && context.Cause(ctx) != ErrDone {
		err = errors.Join(err, ErrInterrupted)
	}
	return err
}

// Tell tells the process that runs this one as a worker. It must be short, less
// than 512 bytes of JSON.
func Tell(report any) {
	line, err := json.Marshal(report)
	if err != nil {
		panic(err) // a type that has no JSON
	}
	os.Stdout.Write(append(line, '\n')) // without a parent the process ends here
}
