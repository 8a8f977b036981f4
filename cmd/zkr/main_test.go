//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// asProgram makes the test binary act as another program, which its first argument names.
const asProgram = "ZKR_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		heedSignals()
		os.Exit(m.Run())
	}
	switch role := strings.Join(os.Args[1:min(2, len(os.Args))], ""); role {
	case "writer":
		write(os.Args[2], os.Args[3], os.Args[4:])
	case "signals":
		printSignals()
	default:
		main()
	}
}

// heedSignals makes this process ignore no signal, as it does below nohup: the programs that the
// tests start would ignore it, too. A signal with a handler has its default in a new program.
func heedSignals() {
	unread := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(unread, s)
		}
	}
}

// printSignals is a program without children. It prints the signals that it gets, until its input ends.
func printSignals() {
	got := make(chan os.Signal, 16)
	signal.Notify(got)
	signal.Reset(syscall.SIGURG, syscall.SIGPIPE) // with the first, Go's runtime interrupts goroutines
	fmt.Println("ready")
	go func() {
		for s := range got {
			fmt.Println("got", unix.SignalName(s.(syscall.Signal)))
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// write is a program that ignores SIGTERM. It appends its name to a file again and again, until
// it has done so 20 times, if told "few", or until it is killed. If told "spread", it first
// starts another one, in a session of its own.
func write(file, name string, how []string) {
	signal.Ignore(syscall.SIGTERM)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	mode := strings.Join(how, "")
	if mode == "spread" {
		c := exec.Command(os.Args[0], "writer", file, name)
		c.Stdout = os.Stdout
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	for i := 0; i < 60000 && (mode != "few" || i < 20); i++ {
		fmt.Fprintln(f, name)
		time.Sleep(time.Millisecond)
	}
	os.Exit(0)
}

// newServer starts a server whose ticks leave a killer a second. Its sessions live for 20 s at most.
func newServer(t *testing.T) *zktest.Server {
	t.Parallel()
	return zktest.NewServer(t, zktest.TickTime(time.Second))
}

// program is a run of zkr.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
}

// output collects what a process writes.
type output struct{ file *os.File }

func (o *output) String() string {
	text, _ := os.ReadFile(o.file.Name())
	return string(text)
}

func newOutput(t *testing.T) output {
	f, err := os.CreateTemp(t.TempDir(), "output")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return output{f}
}

// environ returns the environment for a zkr that uses the server.
func environ(server string, more ...string) []string {
	env := []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "ZKR_SERVERS=" + server}
	return append(env, more...)
}

// prepare returns a program that has not been started.
func prepare(t *testing.T, server string, args ...string) *program {
	p := &program{t: t, cmd: exec.Command(os.Args[0], args...), stdout: newOutput(t), stderr: newOutput(t)}
	p.cmd.Env = environ(server)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout.file, p.stderr.file
	return p
}

func (p *program) start() *program {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Start())
	p.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// start starts zkr.
func start(t *testing.T, server string, args ...string) *program {
	t.Helper()
	return prepare(t, server, args...).start()
}

// zkr runs zkr and returns its exit status.
func zkr(t *testing.T, server string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return zkrWith(t, server, nil, args...)
}

// zkrWith is like zkr, with more variables of the environment.
func zkrWith(t *testing.T, server string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := prepare(t, server, args...)
	p.cmd.Env = append(p.cmd.Env, env...)
	return p.start().wait(), p.stdout.String(), p.stderr.String()
}

// succeed runs zkr, which must succeed, and returns its output.
func succeed(t *testing.T, server string, args ...string) string {
	t.Helper()
	code, stdout, stderr := zkr(t, server, args...)
	require.Zero(t, code, "zkr %v: %s", args, stderr)
	return stdout
}

// refused runs zkr, which must fail with the exit status, and returns what it says.
func refused(t *testing.T, want int, server string, args ...string) string {
	t.Helper()
	code, _, stderr := zkr(t, server, args...)
	require.Equal(t, want, code, "zkr %v: %s", args, stderr)
	return stderr
}

// hold starts a zkr lock whose command runs until it is ended.
func hold(t *testing.T, server string, args ...string) *program {
	t.Helper()
	p := start(t, server, append(append([]string{"lock"}, args...), "-c", "echo held; sleep 600")...)
	p.await("held")
	return p
}

// wait returns the exit status, and -1 if a signal ended zkr.
func (p *program) wait() int {
	p.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// await waits until standard output has the text.
func (p *program) await(text string) {
	p.t.Helper()
	eventually(p.t, "output "+text, func() bool { return strings.Contains(p.stdout.String(), text) })
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 2*time.Millisecond, "never: %s", what)
}

// awaitLine waits until so many places stand in the line.
func awaitLine(t *testing.T, srv *zktest.Server, path string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d places in %s", n, path), func() bool { return len(srv.Children(path)) == n })
}

// record is the file that writers share.
type record string

func newRecord(t *testing.T) record { return record(filepath.Join(t.TempDir(), "record")) }

func (r record) text() string {
	text, _ := os.ReadFile(string(r))
	return string(text)
}

// count returns how many lines the writer has written.
func (r record) count(name string) int { return strings.Count(r.text(), name) }

// requireOrder checks that all that the first writer has written comes before the second's.
func (r record) requireOrder(t *testing.T) {
	t.Helper()
	require.Less(t, strings.LastIndex(r.text(), "first"), strings.Index(r.text(), "second"))
}

// dial connects the test itself.
func dial(t *testing.T, srv *zktest.Server, identity string) *zkrecipes.Client {
	t.Helper()
	return recipetest.DialTo(t, []string{srv.Addr()}, &zkrecipes.Options{Identity: identity})
}

// expireAll expires all sessions.
func expireAll(srv *zktest.Server) {
	for _, s := range srv.Sessions() {
		srv.Expire(s.ID)
	}
}
