package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server that runs as a child process.
type process struct {
	port   int
	secure int // port; 0: none
	id     int
	dir    string // zoo.cfg, data, saved, log, Spec.Files, and pid while it runs
	args   []string
	config string

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil before the first start
	done chan struct{} // closed when cmd has exited and has been waited for
	err  error         // of cmd.Wait; valid once done is closed
}

func (p *process) addr() string { return loopback(p.port) }

func (p *process) secureAddr() string { return loopback(p.secure) }

// create writes the files that a server needs for its first start.
func (p *process) create() error {
	if err := os.MkdirAll(filepath.Join(p.dir, "data"), 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(p.dir, "zoo.cfg"), []byte(p.config+"\n"), 0o644),
		os.WriteFile(filepath.Join(p.dir, "data", "myid"), []byte(strconv.Itoa(p.id)), 0o644),
	)
}

func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The shell writes its PID for the watcher and then becomes java. So no JVM
	// ever runs that the watcher does not know.
	cmd := exec.Command("sh", append([]string{"-c", `echo $$ >pid && exec "$@"`, "sh"}, p.args...)...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	// This goroutine ends with the process. kill, stop and remove wait for it.
	go func() {
		err := cmd.Wait()
		// The PID may be reused from now on: the watcher must not kill it.
		os.Remove(filepath.Join(p.dir, "pid"))
		p.err = err
		close(done)
	}()
	return nil
}

// detach runs the command in a new session, so that it does not get the terminal's
// signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// running reports whether the process runs. p.mu must be held.
func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }

func (p *process) stop(ctx context.Context) error {
	stopCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.end(stopCtx, syscall.SIGTERM); err == nil || ctx.Err() != nil {
		return err
	}
	return p.kill(ctx)
}

func (p *process) end(ctx context.Context, signal os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *process) pause(context.Context) error { return p.signal(syscall.SIGSTOP) }

func (p *process) unpause(context.Context) error { return p.signal(syscall.SIGCONT) }

func (p *process) dump(context.Context) error { return p.signal(syscall.SIGQUIT) }

func (p *process) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return errors.New("the process is not running")
	}
	return p.cmd.Process.Signal(s)
}

func (p *process) erase(context.Context) error {
	if err := os.RemoveAll(p.path("data")); err != nil {
		return err
	}
	return p.create()
}

func (p *process) save(context.Context) error {
	if err := os.RemoveAll(p.path("saved")); err != nil {
		return err
	}
	return os.CopyFS(p.path("saved"), os.DirFS(p.path("data")))
}

func (p *process) restore(context.Context) error {
	if err := os.RemoveAll(p.path("data")); err != nil {
		return err
	}
	return os.CopyFS(p.path("data"), os.DirFS(p.path("saved")))
}

func (p *process) write(_ context.Context, name, text string) error {
	return os.WriteFile(p.path(name), []byte(withDir(text, p.dir)), 0o600)
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// cut fails: processes on one machine share its loopback interface. Cutting one
// off would take firewall rules, which tests should not change.
func (p *process) cut(context.Context) error { return errors.ErrUnsupported }

func (p *process) heal(context.Context) error { return errors.ErrUnsupported }

func (p *process) remove(ctx context.Context) error {
	if err := p.kill(ctx); err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}

func (p *process) alive(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	if p.cmd == nil {
		return errors.New("the process has not been started")
	}
	return fmt.Errorf("the process exited: %v", p.err)
}

func (p *process) log(_ context.Context, n int) string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return "no log: " + err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
