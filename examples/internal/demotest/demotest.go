// Package demotest runs the examples as programs, for their tests.
package demotest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// asProgram is a variable of the environment that makes the test binary run as
// the program. So the program is built once, and with the race detector if the
// test is.
const asProgram = "ZKRECIPES_TEST_AS_PROGRAM"

// Main runs the tests. TestMain calls it with the program's main.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// anywhere runs a test of the program on the server in its own process and, unless
// ZK_HARNESS=zktest, with -zk on a real server, whose addresses the test gets.
func anywhere(t *testing.T, test func(t *testing.T, servers []string)) {
	t.Run("in process", func(t *testing.T) { test(t, nil) })
	if os.Getenv("ZK_HARNESS") != "zktest" {
		t.Run("real", func(t *testing.T) { test(t, realServer(t)) })
	}
}

// realServer returns a real ZooKeeper, which is stopped after the test.
func realServer(t *testing.T) []string {
	provider, err := zkserver.Find(t.Context(), t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	if servers := provider.External(); servers != nil {
		return servers
	}
	node, err := provider.Start(t.Context(), zkserver.Config{})
	require.NoError(t, err)
	return []string{node.Addr()}
}

// Succeed runs the program to its end anywhere. It must be a success whose last line
// of output matches the verdict, and whose whole output matches shows.
func Succeed(t *testing.T, verdict, shows string, args ...string) {
	anywhere(t, func(t *testing.T, servers []string) {
		stdout, stderr, exit := start(t, servers, args...).end()
		require.Zero(t, exit, stderr)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		assert.Regexp(t, verdict, lines[len(lines)-1])
		assert.Regexp(t, shows, stdout)
	})
}

// Settle checks what a board's settle returned: a verdict that contains one text
// or, if problem is not empty, an error that contains the other.
func Settle(t *testing.T, verdict string, err error, contains, problem string) {
	if problem != "" {
		assert.ErrorContains(t, err, problem)
		return
	}
	require.NoError(t, err)
	assert.Contains(t, verdict, contains)
}

// With returns the reports with another one in one place.
func With[R any](reports []R, i int, r R) []R {
	return slices.Replace(slices.Clone(reports), i, i+1, r)
}

// program is a run of the program.
type program struct {
	addr string // of its ZooKeeper, by its first line of output

	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// start starts the program and waits until it says which ZooKeeper it uses. Without
// servers its PATH is empty, so it cannot run any other program.
func start(t *testing.T, servers []string, args ...string) *program {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &program{t: t, cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	says := `^ZooKeeper: (127\.0\.0\.1:\d+) \(package zktest in this process; `
	if servers != nil {
		p.cmd.Args = append(p.cmd.Args, "-zk", strings.Join(servers, ","))
		says = `^ZooKeeper: (` + regexp.QuoteMeta(strings.Join(servers, ",")) + `) \(given by -zk\)\n`
	} else {
		p.cmd.Env = append(p.cmd.Env, "PATH=")
	}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.stdout = bufio.NewReader(stdout)
	found := regexp.MustCompile(says).FindStringSubmatch(p.line())
	require.NotNil(t, found, says)
	p.addr = found[1]
	return p
}

// line returns the next line of output.
func (p *program) line() string {
	line, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, "%s%s", line, &p.stderr)
	return line
}

// end returns the rest of the output once the program has ended.
func (p *program) end() (stdout, stderr string, exit int) {
	rest, err := io.ReadAll(p.stdout)
	require.NoError(p.t, err)
	var failed *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &failed) {
		require.NoError(p.t, err)
	}
	p.t.Logf("\n%s%s", rest, &p.stderr)
	return string(rest), p.stderr.String(), p.cmd.ProcessState.ExitCode()
}

// Interrupt interrupts a run of the program anywhere, after a line of output that contains
// the text. The run must end as interrupted, with that verdict in the rest of its output,
// and leave nothing behind.
func Interrupt(t *testing.T, program, text, verdict string, args ...string) {
	anywhere(t, func(t *testing.T, servers []string) { interrupt(t, program, servers, text, verdict, args...) })
}

func interrupt(t *testing.T, program string, servers []string, text, verdict string, args ...string) {
	before := left(t, program, servers)
	p := start(t, servers, args...)
	for !strings.Contains(p.line(), text) {
	}
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	stdout, stderr, exit := p.end()
	assert.Equal(t, 1, exit)
	assert.Equal(t, program+": interrupted\n", stderr)
	assert.Contains(t, stdout, verdict)
	if servers != nil {
		// The servers delete empty containers, by default once a minute.
		stay := left(t, program, servers)
		for end := time.Now().Add(3 * time.Minute); !slices.Equal(before, stay) && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
			stay = left(t, program, servers)
		}
		assert.Equal(t, before, stay)
		return
	}
	conn, err := net.Dial("tcp", p.addr)
	if err == nil {
		conn.Close()
	}
	assert.Error(t, err, "a server still listens")
}

// left returns what runs of the program have left on the servers.
func left(t *testing.T, program string, servers []string) (left []string) {
	if servers == nil {
		return nil
	}
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	var walk func(path string)
	walk = func(path string) {
		names, _, err := conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		require.NoError(t, err)
		left = append(left, path)
		for _, name := range names {
			walk(path + "/" + name)
		}
	}
	names, _, err := conn.Children("/")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "zkrecipes-demo-"+program+"-") {
			walk("/" + name)
		}
	}
	return left
}
