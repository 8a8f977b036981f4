package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// victimEnv makes this test binary start a server and die (see die).
const victimEnv = "ZKSERVER_TEST_DIE"

func TestMain(m *testing.M) {
	if how := os.Getenv(victimEnv); how != "" {
		die(how)
	}
	goleak.VerifyTestMain(m)
}

// find returns a Provider for this test alone.
func find(t *testing.T) *Provider {
	t.Helper()
	p, err := Find(t.Context(), t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	if p.External() != nil {
		t.Skip("external servers cannot be controlled")
	}
	t.Log(p)
	return p
}

// startOne returns a node and a connection to it.
func startOne(t *testing.T) (*Node, *zk.Conn) {
	t.Helper()
	n, err := find(t).Start(t.Context(), Config{})
	require.NoError(t, err)
	return n, dial(t, n.Addr())
}

func dial(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 5*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func create(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestFindFailsWithTheReasonForEachBackend(t *testing.T) {
	t.Setenv("ZK_SERVERS", "")
	t.Setenv("ZK_HARNESS", "none")
	_, err := Find(t.Context(), nil)
	for _, backend := range []string{"ZK_SERVERS", "docker", "java"} {
		require.ErrorContains(t, err, backend)
	}
}

func TestExternalServersAreUsedButNotControlled(t *testing.T) {
	t.Setenv("ZK_SERVERS", "a:1,b:2")
	p, err := Find(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, p.External())
	_, err = p.Start(t.Context(), Config{})
	require.Error(t, err)
	require.NoError(t, p.Close())
}

func TestFindEndsWithItsContext(t *testing.T) {
	t.Setenv("ZK_SERVERS", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Find(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestExtraLinesAndFlagsReachTheServer(t *testing.T) {
	n, err := find(t).Start(t.Context(), Config{
		TickTime: 200 * time.Millisecond,
		Extra:    map[string]string{"maxSessionTimeout": "12345"},
		JVMFlags: []string{"-Dzookeeper.skipACL=yes"},
	})
	require.NoError(t, err)
	conf, err := n.Command(t.Context(), "conf")
	require.NoError(t, err)
	require.Contains(t, conf, "tickTime=200\n")
	require.Contains(t, conf, "maxSessionTimeout=12345\n")
	conn := dial(t, n.Addr())
	_, err = conn.Create("/locked", nil, 0, zk.DigestACL(zk.PermAll, "some", "body"))
	require.NoError(t, err)
	_, _, err = conn.Get("/locked")
	require.NoError(t, err, "skipACL is on")
}

func TestAServerThatCannotStartIsReportedWithItsLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := find(t).Start(ctx, Config{Extra: map[string]string{"tickTime": "many"}})
	require.ErrorContains(t, err, "exited")
	require.ErrorContains(t, err, "many")
	require.NoError(t, ctx.Err(), "it did not wait for the deadline")
}

func TestAKilledNodeRestartsOnItsPortWithItsData(t *testing.T) {
	n, conn := startOne(t)
	create(t, conn, "/kept")
	before := n.Addr()
	for _, end := range []func(context.Context) error{n.Kill, n.Stop} {
		require.NoError(t, end(t.Context()))
		require.NoError(t, end(t.Context()), "a second time")
		_, err := n.Command(t.Context(), "srvr")
		require.Error(t, err)
		require.NoError(t, n.Restart(t.Context()))
		require.Equal(t, before, n.Addr())
		found, _, err := dial(t, n.Addr()).Exists("/kept")
		require.NoError(t, err)
		require.True(t, found)
	}
}

func TestANodeTellsWhatItsThreadsDo(t *testing.T) {
	n, _ := startOne(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Contains(t, n.Threads(ctx), "org.apache.zookeeper.server.")
}

func TestAPausedNodeIsSilentUntilUnpausedOrKilled(t *testing.T) {
	n, _ := startOne(t)
	require.NoError(t, n.Pause(t.Context()))
	// The kernel stops one thread after the other, a moment after the signal was sent.
	require.Eventually(t, func() bool {
		_, err := n.status(t.Context())
		return errors.Is(err, context.DeadlineExceeded)
	}, time.Minute, time.Millisecond)
	require.NoError(t, n.Unpause(t.Context()))
	require.NoError(t, n.WaitServing(t.Context()))
	require.NoError(t, n.Pause(t.Context()))
	require.NoError(t, n.Kill(t.Context()), "it need not answer")
	require.NoError(t, n.Restart(t.Context()))
}

// A process that is paused does not exit on SIGTERM, and Stop would wait for 10 s.
func TestACallEndsWithItsContext(t *testing.T) {
	n, _ := startOne(t)
	require.NoError(t, n.Pause(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, n.Stop(ctx), context.DeadlineExceeded)
	require.NoError(t, n.Unpause(t.Context()), "the launcher carries out other calls")
}

func TestAWipedNodeIsEmpty(t *testing.T) {
	n, conn := startOne(t)
	create(t, conn, "/lost")
	before := n.Addr()
	require.NoError(t, n.Wipe(t.Context()))
	require.Equal(t, before, n.Addr())
	found, _, err := dial(t, n.Addr()).Exists("/lost")
	require.NoError(t, err)
	require.False(t, found)
}

func TestARestoredNodeHasTheDataThatWereSaved(t *testing.T) {
	for _, tt := range []struct {
		name   string
		quorum bool
		mode   string
	}{{"standalone", false, "standalone"}, {"a quorum of one", true, "leader"}} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := find(t).Start(t.Context(), Config{Quorum: tt.quorum})
			require.NoError(t, err)
			conn := dial(t, n.Addr())
			create(t, conn, "/kept")
			require.NoError(t, n.Pause(t.Context()))
			require.NoError(t, n.Save(t.Context()))
			require.NoError(t, n.Unpause(t.Context()))
			create(t, conn, "/lost")
			before, err := n.status(t.Context())
			require.NoError(t, err)
			for range 2 { // the copy remains
				require.NoError(t, n.Kill(t.Context()))
				require.NoError(t, n.Restore(t.Context()))
				require.NoError(t, n.Restart(t.Context()))
				after, err := n.status(t.Context())
				require.NoError(t, err)
				require.Equal(t, tt.mode, after.mode)
				require.Equal(t, tt.quorum, after.epoch > before.epoch, "a quorum begins an epoch")
				conn := dial(t, n.Addr())
				found, _, err := conn.Exists("/kept")
				require.NoError(t, err)
				require.True(t, found)
				found, _, err = conn.Exists("/lost")
				require.NoError(t, err)
				require.False(t, found)
			}
		})
	}
}

func TestEmptyContainersAreReaped(t *testing.T) {
	_, conn := startOne(t)
	_, err := conn.CreateContainer("/box", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	create(t, conn, "/box/child")
	require.NoError(t, conn.Delete("/box/child", -1))
	require.Eventually(t, func() bool {
		found, _, err := conn.Exists("/box")
		return err == nil && !found
	}, time.Minute, 20*time.Millisecond)
}

func TestARemovedNodeCannotBeStarted(t *testing.T) {
	n, _ := startOne(t)
	require.NoError(t, n.Remove(t.Context()))
	require.NoError(t, n.Remove(t.Context()))
	require.Error(t, n.Start(t.Context()))
}

func TestAnotherNodeLeadsWhenTheLeaderIsKilled(t *testing.T) {
	e, err := find(t).StartEnsemble(t.Context(), 3, Config{})
	require.NoError(t, err)
	require.Len(t, e.Addrs(), 3)
	old, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, old.Kill(t.Context()))
	next, err := e.Leader(t.Context(), old)
	require.NoError(t, err)
	require.NotEqual(t, old, next)
	create(t, dial(t, next.Addr()), "/after")
	require.NoError(t, old.Restart(t.Context()))
	require.NoError(t, e.WaitServing(t.Context()))
	require.NoError(t, old.Wipe(t.Context()))
	conn := dial(t, old.Addr())
	_, err = conn.Sync("/after")
	require.NoError(t, err)
	found, _, err := conn.Exists("/after")
	require.NoError(t, err)
	require.True(t, found, "its peers have sent the data")
}

func TestALeaderThatIsCutOffIsReplacedAndHealsAsAFollower(t *testing.T) {
	e, err := find(t).StartEnsemble(t.Context(), 3, Config{})
	require.NoError(t, err)
	old, err := e.Leader(t.Context())
	require.NoError(t, err)
	err = old.Cut(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("only Docker can cut a node off")
	}
	require.NoError(t, err)
	next, err := e.Leader(t.Context(), old)
	require.NoError(t, err)
	create(t, dial(t, next.Addr()), "/after")
	require.Eventually(t, func() bool {
		answer, err := old.Command(t.Context(), "srvr")
		return err == nil && strings.Contains(answer, "not currently serving")
	}, time.Minute, 50*time.Millisecond, "clients still reach it, and it knows that it has no quorum")
	require.NoError(t, old.Heal(t.Context()))
	require.NoError(t, old.WaitServing(t.Context()))
	found, _, err := dial(t, old.Addr()).Exists("/after")
	require.NoError(t, err)
	require.True(t, found)
	again, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, next, again)
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	p := find(t)
	_, err := p.Start(t.Context(), Config{})
	require.NoError(t, err)
	e, err := p.StartEnsemble(t.Context(), 3, Config{})
	require.NoError(t, err)
	require.NoError(t, e.Nodes[0].Pause(t.Context()))
	run, dir := p.traces.Label, p.traces.Dir
	require.NotEmpty(t, leftovers(t, run, dir))
	require.NoError(t, p.Close())
	require.Empty(t, leftovers(t, run, dir))
}

func TestADyingProcessLeavesNothingBehind(t *testing.T) {
	find(t) // skips the test with external servers
	for _, how := range []string{"panic", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimEnv+"="+how)
			out, err := cmd.Output()
			require.Error(t, err)
			run, dir, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
			require.True(t, ok, "%s", out)
			require.Eventually(t, func() bool {
				return len(leftovers(t, run, dir)) == 0
			}, time.Minute, 100*time.Millisecond)
		})
	}
}

// The launcher's watcher removes what the launcher has started.
func TestAKilledLauncherLeavesNothingBehindAndCallsFail(t *testing.T) {
	p, err := Find(t.Context(), t.Logf)
	require.NoError(t, err)
	if p.External() != nil {
		t.Skip("external servers cannot be controlled")
	}
	n, err := p.Start(t.Context(), Config{})
	require.NoError(t, err)
	require.NotEmpty(t, leftovers(t, p.traces.Label, p.traces.Dir))
	require.NoError(t, syscall.Kill(-p.launcher.cmd.Process.Pid, syscall.SIGKILL)) // with the go command
	require.Eventually(t, func() bool {
		return len(leftovers(t, p.traces.Label, p.traces.Dir)) == 0
	}, time.Minute, 100*time.Millisecond)
	require.ErrorContains(t, n.Pause(t.Context()), "has ended")
	require.Error(t, p.Close())
}

// die starts a server, prints its traces, and ends without Close.
func die(how string) {
	p, err := Find(context.Background(), nil)
	if err != nil {
		panic(err)
	}
	n, err := p.Start(context.Background(), Config{})
	if err != nil {
		panic(err)
	}
	if err := n.Pause(context.Background()); err != nil {
		panic(err)
	}
	run, dir := p.traces.Label, p.traces.Dir
	fmt.Println(run, dir)
	switch how {
	case "panic":
		panic("as asked")
	case "kill":
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {}
	}
	os.Exit(3)
}

// leftovers lists the containers, networks, processes and files of a run.
func leftovers(t *testing.T, run, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(dir)
	require.NoError(t, err)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range commands {
		command, _ := os.ReadFile(file)
		if strings.Contains(string(command), dir+"/server-") {
			found = append(found, filepath.Dir(file))
		}
	}
	if _, err := exec.Command("docker", "version").Output(); err != nil {
		return found // no engine, and so no containers
	}
	for _, list := range []string{"ps --all --quiet", "network ls --quiet"} {
		ids, err := exec.Command("docker", append(strings.Fields(list), "--filter", "label="+run)...).Output()
		require.NoError(t, err)
		found = append(found, strings.Fields(string(ids))...)
	}
	return found
}
