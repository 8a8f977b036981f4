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

func TestAKilledHolderIsSurvivedAndNothingIsLost(t *testing.T) {
	cmd := program(t, "-workers", "3", "-rounds", "2")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("\n%s%s", &stdout, &stderr)
	require.NoError(t, err, "exit code")

	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	assert.Regexp(t, `^nothing was lost: \d+ additions were told of, \d+ in all, and the counter is \d+`, lines[len(lines)-1])
	_, after, killed := strings.Cut(stdout.String(), "worker B is killed")
	require.True(t, killed)
	assert.Contains(t, after, " + ", "others add after the kill")

	// A server that was started is gone with the program.
	if found := regexp.MustCompile(`^ZooKeeper: (\S+) \(started here`).FindStringSubmatch(lines[0]); found != nil {
		conn, err := net.DialTimeout("tcp", found[1], time.Second)
		if err == nil {
			conn.Close()
		}
		assert.Error(t, err, "the server still listens")
	}
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	provider, err := zkserver.Find(t.Context(), t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	servers := provider.External()
	if servers == nil {
		node, err := provider.Start(t.Context(), zkserver.Config{})
		require.NoError(t, err)
		servers = []string{node.Addr()}
	}
	before := demos(t, servers)

	cmd := program(t, "-rounds", "100", "-zk", strings.Join(servers, ","))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), " + ") { // the first addition
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(stdout)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Equal(t, "mutex: interrupted\n", stderr.String())
	assert.Contains(t, string(rest), "nothing was lost")
	assert.Equal(t, before, demos(t, servers))
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
