package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Libraries for other languages take part in some scenarios. They are called peers.
// Each runs in a process of its own, which the bench starts once, so that it is as
// warm as the other sides. The process first writes a line, "ok" and its version. Then
// it reads commands, and answers each with one line, "ok" or "error" and a text:
//
//	open <servers> <mutex, rw or semaphore> <sessions> <threads> <path>
//	run <lead> <cycles> <time to hold the lock, in µs>
//	close
//
// Sessions use the servers in turn, and threads the sessions. The threads share a
// block's cycles as side.run does it. The answer to run has the times in nanoseconds, of
// the block and of each cycle. With rw, a tenth of the cycles write. The process ends
// when its stdin is closed.

// The names of the peers.
const (
	curator = "Curator"
	kazoo   = "kazoo"
)

// mostKazoo is the largest number of kazoo's sessions. The threads of a Python process
// run one at a time, so with more sessions the process is measured, and not the lock.
const mostKazoo = 200

// The recipes of peers.
const (
	mutex     = "mutex"
	readWrite = "rw"
	semaphore = "semaphore"
)

// peerLock is what peers do in a scenario.
type peerLock struct {
	recipe   string        // empty: they do not take part
	hold     time.Duration // sleep while holding the lock
	sessions int           // that the workers share; 0: one for each
}

//go:embed peers/CuratorWorker.java
var curatorWorker []byte

//go:embed peers/kazoo_worker.py
var kazooWorker []byte

// peer is a library that runs in a process of its own.
type peer struct {
	name    string
	recipes []string
	most    int    // sessions that the process can have
	about   string // the version, or why the peer is not measured
	worker  *worker

	// command prepares what the process needs in a directory, and returns its command
	// line, or says what is missing.
	command func(ctx context.Context, dir string) ([]string, error)
}

// newPeers returns all peers. They are not started.
func newPeers() []*peer {
	return []*peer{
		{name: curator, recipes: []string{mutex, readWrite, semaphore}, most: 1000, command: curatorCommand},
		{name: kazoo, recipes: []string{mutex}, most: mostKazoo, command: kazooCommand},
	}
}

// startPeers starts the peers. They end when the lab closes. Those that cannot be
// started are listed in the report, with the reason.
func (l *lab) startPeers(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return err
	}
	l.peers = newPeers()
	each(len(l.peers), func(i int) error {
		l.peers[i].start(ctx, dir)
		return nil
	})
	closeServer := l.close
	l.close = func() error {
		for _, p := range l.peers {
			if p.worker != nil {
				p.worker.end()
			}
		}
		return errors.Join(os.RemoveAll(dir), closeServer())
	}
	return nil
}

func (p *peer) start(ctx context.Context, dir string) {
	args, err := p.command(ctx, dir)
	if err == nil {
		p.worker, p.about, err = startWorker(ctx, args)
	}
	if err != nil {
		p.about = "not measured: " + err.Error()
	}
}

func curatorCommand(ctx context.Context, dir string) ([]string, error) {
	return javaCommand(ctx, dir, "CuratorWorker", curatorWorker)
}

// javaCommand compiles a class that uses Curator. For that, Debian's Java runtime is enough: it
// has the compiler's module.
func javaCommand(ctx context.Context, dir, class string, code []byte) ([]string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("there is no java (Debian: default-jre-headless)")
	}
	const jars = "/usr/share/java/"
	path := jars + "curator-recipes.jar" // its manifest names the others
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there is no %s (Debian: libcurator-recipes-java)", path)
	}
	source := filepath.Join(dir, class+".java")
	if err := os.WriteFile(source, code, 0o600); err != nil {
		return nil, err
	}
	compile := exec.CommandContext(ctx, java, "-m", "jdk.compiler/com.sun.tools.javac.Main",
		"-d", dir, "-cp", path, source)
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling its worker: %w: %s", err, oneLine(string(out)))
	}
	// slf4j-nop drops the log.
	return []string{java, "-cp", strings.Join([]string{dir, path, jars + "slf4j-nop.jar"}, ":"), class}, nil
}

func kazooCommand(ctx context.Context, dir string) ([]string, error) {
	python := "/usr/bin/python3" // Debian's, which has Debian's packages
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			return nil, errors.New("there is no python3 (Debian: python3-kazoo)")
		}
	}
	if err := exec.CommandContext(ctx, python, "-c", "import kazoo").Run(); err != nil {
		return nil, fmt.Errorf("%s cannot import kazoo (Debian: python3-kazoo)", python)
	}
	source := filepath.Join(dir, "kazoo_worker.py")
	return []string{python, source}, os.WriteFile(source, kazooWorker, 0o600)
}

// peersOf returns the peers that take part in a scenario.
func (l *lab) peersOf(sc scenario) (list []*peer) {
	for _, p := range l.peers {
		if p.worker != nil && slices.Contains(p.recipes, sc.peers.recipe) && sc.workers <= p.most {
			list = append(list, p)
		}
	}
	return list
}

// open opens the sessions of a scenario. Close them before the next ones are opened.
func (p *peer) open(fx *fixture, sc scenario, servers string) error {
	_, err := p.worker.ask(fx.ctx, "open %s %s %d %d %s/%s",
		servers, sc.peers.recipe, cmp.Or(sc.peers.sessions, sc.workers), sc.workers, fx.path, p.name)
	return err
}

func (p *peer) close(fx *fixture) error {
	_, err := p.worker.ask(fx.ctx, "close")
	return err
}

// run runs one block. It counts nothing.
func (p *peer) run(fx *fixture, sc scenario) (b block, err error) {
	answer, err := p.worker.ask(fx.ctx, "run %d %d %d", sc.lead, sc.block, sc.peers.hold.Microseconds())
	if err != nil {
		return b, err
	}
	var times []time.Duration
	for ns := range strings.FieldsSeq(answer) {
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			return b, err
		}
		times = append(times, time.Duration(n))
	}
	if len(times) != 1+sc.block {
		return b, fmt.Errorf("%d times for %d cycles", len(times), sc.block)
	}
	return block{time: times[0], cycles: times[1:]}, nil
}

// count opens the sessions again, through a proxy that counts, and returns what two
// blocks differ in, of which one has sc.block cycles more. As these sessions are new,
// there is one more block before, as for the other sides.
func (p *peer) count(fx *fixture, sc scenario) (c counts, err error) {
	if err := p.close(fx); err != nil {
		return c, err
	}
	var t tally
	through, err := newProxy(fx.servers[0], &t)
	if err != nil {
		return c, err
	}
	defer through.close()
	if err := p.open(fx, sc, through.addr()); err != nil {
		return c, err
	}
	short, long := sc, sc
	short.block, long.block = 1, 1+sc.block
	var sent [4]counts
	for i, sc := range []scenario{short, short, long} {
		if _, err := p.run(fx, sc); err != nil {
			return c, err
		}
		sent[i+1] = t.read()
	}
	return sent[3].minus(sent[2]).minus(sent[2].minus(sent[1])), p.close(fx)
}

// worker is a peer's process.
type worker struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *lastLines
}

// startWorker starts a process and returns what it says about itself.
func startWorker(ctx context.Context, args []string) (*worker, string, error) {
	w := &worker{cmd: exec.CommandContext(ctx, args[0], args[1:]...), stderr: new(lastLines)}
	w.cmd.Stderr = w.stderr
	stdout, err1 := w.cmd.StdoutPipe()
	stdin, err2 := w.cmd.StdinPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	w.stdin, w.stdout = stdin, bufio.NewReader(stdout)
	if err := w.cmd.Start(); err != nil {
		return nil, "", err
	}
	about, err := w.answer(ctx)
	if err != nil {
		w.end()
		return nil, "", err
	}
	return w, about, nil
}

// ask sends a command and returns the answer. If ctx ends before, it kills the process.
func (w *worker) ask(ctx context.Context, format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(w.stdin, format+"\n", args...); err != nil {
		return "", w.ended(ctx, err)
	}
	return w.answer(ctx)
}

func (w *worker) answer(ctx context.Context) (string, error) {
	defer context.AfterFunc(ctx, func() { w.cmd.Process.Kill() })()
	line, err := w.stdout.ReadString('\n')
	if err != nil {
		return "", w.ended(ctx, err)
	}
	status, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if status != "ok" {
		return "", errors.New(text)
	}
	return text, nil
}

// ended returns the error of a process that reads or writes no more.
func (w *worker) ended(ctx context.Context, err error) error {
	return fmt.Errorf("its process: %w: %s", cmp.Or(context.Cause(ctx), err), w.stderr)
}

// end ends the process, even if it runs a block.
func (w *worker) end() {
	w.stdin.Close()
	time.AfterFunc(10*time.Second, func() { w.cmd.Process.Kill() })
	w.cmd.Wait()
}

// lastLines keeps the last part of what is written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-1000):]
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return oneLine(string(l.text))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
