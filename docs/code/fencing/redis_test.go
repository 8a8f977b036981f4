package fencing

import (
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/markdown"
)

// redis runs Debian's redis-server on a free port of the loopback, and returns a function that runs
// redis-cli with these arguments.
func redis(t *testing.T) (cli func(args ...string) string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "")
	require.NoError(t, server.Start(), "make setup installs redis-server")
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	run := func(args ...string) (string, error) {
		out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	require.Eventually(t, func() bool {
		out, err := run("PING")
		return err == nil && out == "PONG"
	}, 2*time.Minute, 10*time.Millisecond, "redis-server does not answer")
	return func(args ...string) string {
		out, err := run(args...)
		if !strings.HasPrefix(out, "FENCED") {
			require.NoError(t, err, out)
		}
		return out
	}
}

func TestTheScriptInTheGuideIsTheOneThatIsTested(t *testing.T) {
	guide, err := os.ReadFile("../../fencing.md")
	require.NoError(t, err)
	script, err := os.ReadFile("fence.lua")
	require.NoError(t, err)
	for _, block := range markdown.Parse(string(guide)).Blocks {
		if block.Language == "lua" {
			require.True(t, strings.HasSuffix(string(script), "\n"+strings.Join(block.Code, "\n")+"\n"))
			return
		}
	}
	require.Fail(t, "no script")
}

func TestRedisRefusesAnEarlierHolder(t *testing.T) {
	cli := redis(t)
	write := func(token int64, value string) string {
		return cli("--eval", "fence.lua", "fence:/locks/orders", "balance", ",", strconv.FormatInt(token, 10), value)
	}
	require.Equal(t, "OK", write(256, "90"))
	require.Equal(t, "OK", write(256, "80"), "a holder may write again")
	require.Equal(t, "OK", write(512, "70"))
	require.Equal(t, "FENCED a later holder came first, with token 512", write(256, "60"))
	require.Equal(t, "70", cli("GET", "balance"))
	require.Equal(t, "OK", write(1024, "50"), "more digits")
	require.Contains(t, write(999, "40"), "FENCED")
	require.Equal(t, "OK", write(math.MaxInt64-1, "30"), "beyond what Lua's numbers can tell apart")
	require.Contains(t, write(math.MaxInt64-2, "20"), "FENCED")
	require.Equal(t, "OK", write(math.MaxInt64, "10"))
	require.Contains(t, write(math.MaxInt64-1, "0"), "FENCED")
	require.Equal(t, "10", cli("GET", "balance"))
}
