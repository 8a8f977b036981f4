package zkserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// launcherPackage is a module of its own, so that programs that import the root of this
// repository need none of the modules that talk to Docker. The go command finds it by the
// go.work of the current directory.
const launcherPackage = "github.com/zkrecipes/zkrecipes/internal/zkserver/launcher"

// A launcher is a process that runs servers. It ends when its standard input does, however
// this process ends, and everything that it has created is then removed.
type launcher struct {
	cmd     *exec.Cmd // go run
	stdin   io.WriteCloser
	readers sync.WaitGroup // of its standard output and its standard error

	mu      sync.Mutex
	last    int64
	pending map[int64]chan<- Reply // by Request.ID; nil once the process has ended
	stderr  strings.Builder
}

// startLauncher builds and starts the launcher, which runs servers in the way with that name, or
// in any if it is empty. What it prints goes to logf, until close.
func startLauncher(logf func(format string, args ...any), only string) (*launcher, error) {
	l := &launcher{cmd: exec.Command("go", "run", launcherPackage), pending: map[int64]chan<- Reply{}}
	l.cmd.Env = append(os.Environ(), "ZK_HARNESS="+only)
	// Ctrl-C reaches all processes of the terminal, but a command that runs on a server
	// needs it until the command exits. A process in a session of its own does not get it.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := l.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	printed := make(chan struct{})
	l.readers.Go(func() {
		defer close(printed)
		l.print(stderr, logf)
	})
	l.readers.Go(func() {
		l.receive(stdout)
		<-printed // the calls that fail now report why the process has ended
		l.fail()
	})
	return l, nil
}

func (l *launcher) print(stderr io.Reader, logf func(format string, args ...any)) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			l.mu.Lock()
			l.stderr.WriteString(line)
			l.mu.Unlock()
			logf("%s", strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

// receive passes replies on until the process has ended.
func (l *launcher) receive(stdout io.Reader) {
	replies := json.NewDecoder(stdout)
	for {
		var r Reply
		if replies.Decode(&r) != nil {
			io.Copy(io.Discard, stdout) // of a process that ends
			return
		}
		l.mu.Lock()
		answer := l.pending[r.ID]
		delete(l.pending, r.ID)
		l.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
}

// fail ends the calls that get no reply any more.
func (l *launcher) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answer := range l.pending {
		close(answer)
	}
	l.pending = nil
}

// call sends a request and waits for its reply. When ctx ends, the launcher ends what it does
// for the request, and call waits for that.
func (l *launcher) call(ctx context.Context, r Request) (Reply, error) {
	answer := make(chan Reply, 1)
	id, err := l.send(r, answer)
	if err != nil {
		return Reply{}, err
	}
	stop := context.AfterFunc(ctx, func() { l.write(Request{ID: id, Op: OpCancel}) })
	reply, ok := <-answer
	stop()
	switch {
	case !ok:
		err = l.ended()
	case reply.Err != "":
		err = &launcherError{text: reply.Err, unsupported: reply.Unsupported}
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return reply, err
}

// send writes a request whose reply goes to answer, and returns its ID.
func (l *launcher) send(r Request, answer chan<- Reply) (id int64, err error) {
	l.mu.Lock()
	if l.pending == nil {
		l.mu.Unlock()
		return 0, l.ended()
	}
	l.last++
	r.ID = l.last
	l.pending[r.ID] = answer
	l.mu.Unlock()
	l.write(r)
	return r.ID, nil
}

// write writes one line. It fails only if the process has ended, which receive notices.
func (l *launcher) write(r Request) { json.NewEncoder(l.stdin).Encode(r) }

func (l *launcher) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%s has ended\n%s", l.cmd, strings.TrimSpace(l.stderr.String()))
}

// abort ends the launcher. Whatever it has created is removed, but abort does not wait for it.
func (l *launcher) abort() {
	l.stdin.Close()
	l.cmd.Process.Kill() // of the go command, which may still build the launcher
}

// close ends the launcher and waits until it has exited.
func (l *launcher) close() error {
	l.stdin.Close()
	l.readers.Wait()
	return l.cmd.Wait()
}

// launcherError is an error of the launcher.
type launcherError struct {
	text        string
	unsupported bool
}

func (e *launcherError) Error() string { return e.text }

func (e *launcherError) Is(target error) bool {
	return e.unsupported && target == errors.ErrUnsupported
}
