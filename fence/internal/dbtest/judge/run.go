package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const sessionTimeout = time.Second

// run is a run of all processes, with the fence or without.
type run struct {
	*dbtest.Database
	fenced bool

	mu       sync.Mutex
	rng      *rand.Rand
	holder   int // that has said last that it holds
	outcomes map[string]outcome
	faults   map[string]int
	broken   error // what no fault explains
}

// worker is a process and its ways to ZooKeeper and to the database.
type worker struct {
	*run
	id      int
	self    string
	zk, db  *dbtest.Proxy // db is nil for SQLite
	reports *os.File
	suffers bool // something is being done to it; under run.mu

	mu     sync.Mutex
	cmd    *exec.Cmd
	leash  *os.File
	ended  chan struct{} // closed when cmd has ended
	starts int
	over   bool
}

// play runs the processes for that long.
func (r *run) play(ctx context.Context, processes int, d time.Duration) error {
	r.outcomes, r.faults = map[string]outcome{}, map[string]int{}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	srv, err := zktest.Start()
	if err != nil {
		return err
	}
	defer srv.Close()
	reports, output, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	var reading sync.WaitGroup
	reading.Go(func() { r.read(reports) })

	var crew []*worker
	for i := range processes {
		w := &worker{run: r, id: i, self: self, reports: output}
		if w.zk, err = dbtest.NewProxy(srv.Addr()); err != nil {
			return err
		}
		defer w.zk.Close()
		if r.Addr != "" {
			if w.db, err = dbtest.NewProxy(r.Addr); err != nil {
				return err
			}
			defer w.db.Close()
		}
		if err := w.start(); err != nil {
			return err
		}
		crew = append(crew, w)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var faults sync.WaitGroup
	for range 3 { // at one time, so that most processes are well
		faults.Go(func() { r.trouble(ctx, crew) })
	}
	faults.Wait()
	for _, w := range crew {
		w.stop()
	}
	output.Close()
	reading.Wait()
	return r.broken
}

// read notes what the workers report.
func (r *run) read(reports *os.File) {
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var one report
		err := json.Unmarshal(lines.Bytes(), &one)
		r.mu.Lock()
		switch {
		case err != nil:
			r.broken = errors.Join(r.broken, fmt.Errorf("a worker wrote %q", lines.Text()))
		case one.Outcome == holds:
			r.holder = one.Worker
		default:
			r.outcomes[one.Attempt] = one.Outcome
		}
		r.mu.Unlock()
	}
}

// trouble does one thing after the other to the workers, mostly to the one that holds.
func (r *run) trouble(ctx context.Context, crew []*worker) {
	for pause(ctx, r.random(100*time.Millisecond, 600*time.Millisecond)) {
		w := r.choose(crew)
		kinds := []string{"stopped", "killed", "cut off from ZooKeeper"}
		if w.db != nil {
			kinds = append(kinds, "connections to the database dropped", "database silent", "reply to COMMIT lost", "COMMIT slow")
		}
		r.mu.Lock()
		kind := kinds[r.rng.IntN(len(kinds))]
		r.faults[kind]++
		r.mu.Unlock()
		w.suffer(ctx, kind)
		r.mu.Lock()
		w.suffers = false
		r.mu.Unlock()
	}
}

// choose returns a worker to which nothing is done yet.
func (r *run) choose(crew []*worker) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := crew[r.holder]
	for w.suffers || r.rng.IntN(4) == 0 {
		w = crew[r.rng.IntN(len(crew))]
	}
	w.suffers = true
	return w
}

func (r *run) random(from, to time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from + time.Duration(r.rng.Int64N(int64(to-from)))
}

// beyond is longer than the session of a worker lives.
func (r *run) beyond() time.Duration { return r.random(sessionTimeout, 3*sessionTimeout) }

func (w *worker) suffer(ctx context.Context, kind string) {
	switch kind {
	case "stopped":
		w.signal(syscall.SIGSTOP)
		pause(ctx, w.beyond())
		w.signal(syscall.SIGCONT)
	case "killed":
		w.kill()
	case "cut off from ZooKeeper":
		w.zk.Cut()
		pause(ctx, w.beyond())
		w.zk.Mend()
	case "connections to the database dropped":
		w.db.Drop()
	case "database silent":
		w.db.Stall()
		pause(ctx, w.beyond())
		w.db.Resume()
	case "reply to COMMIT lost":
		w.db.LoseReply()
	case "COMMIT slow":
		c := w.db.HoldCommit()
		select {
		case <-c.Sent:
			pause(ctx, w.beyond())
		case <-ctx.Done():
		case <-time.After(2 * time.Second): // it does not hold
		}
		c.Release()
	}
}

// pause waits, and reports false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// start starts the process, and again whenever it was killed.
func (w *worker) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil
	}
	w.starts++
	p := params{Worker: w.id, Start: w.starts, Fenced: w.fenced, Dialect: w.Dialect, ZooKeeper: w.zk.Addr()}
	addr := ""
	if w.db != nil {
		addr = w.db.Addr()
	}
	p.Driver, p.DSN = w.DSN(addr, settings[w.Name])
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	input, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	cmd := exec.Command(w.self, workerRole, string(text))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, w.reports, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	w.cmd, w.leash, w.ended = cmd, leash, ended
	go func() {
		err := cmd.Wait()
		close(ended)
		leash.Close()
		if err != nil && cmd.ProcessState.ExitCode() >= 0 { // -1: a signal
			w.fail(fmt.Errorf("worker %d: %w", w.id, err))
		}
	}()
	return nil
}

func (w *worker) fail(err error) {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.broken = errors.Join(w.broken, err)
}

func (w *worker) signal(s syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cmd.Process.Signal(s)
}

func (w *worker) kill() {
	w.signal(syscall.SIGKILL)
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	<-ended
	if err := w.start(); err != nil {
		w.fail(err)
	}
}

// stop lets the process end by itself, and waits until it has.
func (w *worker) stop() {
	w.mu.Lock()
	w.over = true
	w.leash.Close()
	ended := w.ended
	w.mu.Unlock()
	<-ended
}

// settings bound how long a transaction of a stopped process keeps its locks, and how long others
// wait for them.
var settings = map[string]map[string]string{
	"postgresql": {"idle_in_transaction_session_timeout": "1500", "lock_timeout": "10000"},
	"mariadb":    {"idle_write_transaction_timeout": "2", "innodb_lock_wait_timeout": "10"},
	"sqlite":     {"busy_timeout": "10000"},
}
