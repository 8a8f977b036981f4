package main

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
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// asProgram makes this test binary the program, so that what is tested is built
// once and under the race detector where the test is.
const asProgram = "ZKRECIPES_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// realServer returns a real ZooKeeper, which is gone after the test.
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

// anywhere runs a test of the program on the server that it serves itself, and
// with -zk on a real one, whose addresses are given.
func anywhere(t *testing.T, test func(t *testing.T, servers []string)) {
	t.Run("in process", func(t *testing.T) { test(t, nil) })
	t.Run("real", func(t *testing.T) { test(t, realServer(t)) })
}

// start starts the program, waits until it says on what it runs, and returns
// the rest of its output. Without servers it finds no other program to help it.
func start(t *testing.T, servers []string, args ...string) (cmd *exec.Cmd, addr string, stdout *bufio.Reader, stderr *bytes.Buffer) {
	cmd, stderr = program(t, args...), new(bytes.Buffer)
	says := `^ZooKeeper: (127\.0\.0\.1:\d+) \(package zktest in this process, not a real server; `
	if servers != nil {
		cmd.Args = append(cmd.Args, "-zk", strings.Join(servers, ","))
		says = `^ZooKeeper: (` + regexp.QuoteMeta(strings.Join(servers, ",")) + `) \(given by -zk\)\n`
	} else {
		cmd.Env = append(cmd.Env, "PATH=")
	}
	cmd.Stderr = stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stdout = bufio.NewReader(pipe)
	first, err := stdout.ReadString('\n')
	require.NoError(t, err, stderr)
	found := regexp.MustCompile(says).FindStringSubmatch(first)
	require.NotNil(t, found, first)
	return cmd, found[1], stdout, stderr
}

func TestAKilledHolderIsSurvivedAndNothingIsLost(t *testing.T) {
	anywhere(t, func(t *testing.T, servers []string) {
		cmd, _, stdout, stderr := start(t, servers, "-workers", "3", "-rounds", "2")
		rest, err := io.ReadAll(stdout)
		require.NoError(t, err)
		err = cmd.Wait()
		t.Logf("\n%s%s", rest, stderr)
		require.NoError(t, err, "exit code")

		lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
		assert.Regexp(t, `^nothing was lost: \d+ additions were told of, \d+ in all, and the counter is \d+`, lines[len(lines)-1])
		_, after, killed := strings.Cut(string(rest), "worker B is killed")
		require.True(t, killed)
		assert.Contains(t, after, " + ", "others add after the kill")
	})
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	anywhere(t, func(t *testing.T, servers []string) {
		var before []string
		if servers != nil {
			before = demos(t, servers)
		}
		cmd, addr, stdout, stderr := start(t, servers, "-rounds", "100")
		for { // the first addition
			line, err := stdout.ReadString('\n')
			require.NoError(t, err)
			if strings.Contains(line, " + ") {
				break
			}
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		rest, err := io.ReadAll(stdout)
		require.NoError(t, err)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Equal(t, 1, exit.ExitCode())
		assert.Equal(t, "mutex: interrupted\n", stderr.String())
		assert.Contains(t, string(rest), "nothing was lost")
		if servers != nil {
			assert.Equal(t, before, demos(t, servers))
			return
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
		}
		assert.Error(t, err, "somebody still listens")
	})
}

// demos returns the counters and the places in line that stand on the server.
// Empty containers are the server's to reap.
func demos(t *testing.T, servers []string) (left []string) {
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	list := func(path string) []string {
		names, _, err := conn.Children(path)
		if !errors.Is(err, zk.ErrNoNode) {
			require.NoError(t, err)
		}
		return names
	}
	for _, name := range list("/") {
		if strings.HasPrefix(name, "zkrecipes-demo-") {
			for _, child := range list("/" + name) {
				if child != "lock" {
					left = append(left, name+"/"+child)
				}
			}
			for _, place := range list("/" + name + lockPath) {
				left = append(left, name+lockPath+"/"+place)
			}
		}
	}
	return left
}

func TestTheAccountIsSettledToTheLastAddition(t *testing.T) {
	play := func(reports ...report) *board {
		b := newBoard(io.Discard, 2)
		for _, r := range reports {
			b.take(r)
		}
		return b
	}
	told := []report{
		{Worker: 1, What: holds, Token: 5, Add: 3}, {Worker: 1, What: added, Token: 5, Add: 3},
		{Worker: 2, What: holds, Token: 8, Sum: 3, Add: 4},
	}
	for name, test := range map[string]struct {
		reports []report
		end     counter
		ok      bool
	}{
		"killed before it was added": {told, counter{3, 5}, true},
		"killed after it was added":  {told, counter{7, 8}, true},
		"one lost":                   {told, counter{4, 8}, false},
		"one made twice":             {told, counter{6, 5}, false},
		"the token fell":             {told, counter{3, 4}, false},
		"added although kept back":   {append(told[:2:2], told[2], report{Worker: 2, What: kept, Token: 8}), counter{7, 8}, false},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := play(test.reports...).settle(test.end)
			assert.Equal(t, test.ok, err == nil, "%s%v", verdict, err)
		})
	}
}
