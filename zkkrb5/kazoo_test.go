//go:build linux

package zkkrb5_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// kazoo takes a lock, says what the znode /state has, waits for a line, and gives the lock back, again
// and again.
const kazoo = `
import sys
from kazoo.client import KazooClient
from kazoo.security import make_acl
client = KazooClient(sys.argv[1], default_acl=[make_acl("sasl", "alice", all=True)],
    sasl_options={"mechanism": "DIGEST-MD5", "username": "alice", "password": sys.argv[2]})
client.start(60)
lock = client.Lock("/lock", "kazoo", extra_lock_patterns=["lock-"])
client.ensure_path("/lock")
print("ready", flush=True)
for line in sys.stdin:
    lock.acquire()
    print("state:", client.get("/state")[0].decode(), flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
client.stop()
`

func TestKazooWithSASLAndThisLibraryShareALock(t *testing.T) {
	node := startNode(t, "", harness.JAAS{Server: harness.DigestUsers(map[string]string{"alice": password}), Flags: harness.RequireSASL})

	cmd := exec.CommandContext(harness.Within(t, 5*time.Minute), "/usr/bin/python3", "-c", kazoo, node.Addr(), password)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start(), "scripts/setup-sasl.sh installs kazoo")
	said := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		require.True(t, said.Scan(), "kazoo has ended: scripts/setup-sasl.sh installs it")
		require.Equal(t, want, said.Text())
	}
	tell := func() {
		_, err := io.WriteString(in, "\n")
		require.NoError(t, err)
	}

	c := dial(t, node.Addr(), &zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", password)})
	m := zkrecipes.NewMutex(c, "/lock")
	set := func(l *zkrecipes.Lease, state string) {
		_, err := l.Commit(t.Context(), zkrecipes.OpSet("/state", []byte(state), -1))
		require.NoError(t, err)
	}
	says("ready")
	l := recipetest.LockOn(t, m)
	_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/state", []byte("free"), 0, nil))
	require.NoError(t, err)
	require.NoError(t, l.Release())
	for range 5 {
		tell()
		says("state: free")
		_, err := m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		waits := recipetest.LockLater(t, m)
		harness.Eventually(t, "this client waits", func() bool {
			all, err := m.Contenders(t.Context())
			return err == nil && len(all) == 2
		})
		tell()
		says("released")
		l := waits.Get()
		set(l, "taken")

		tell()
		harness.Eventually(t, "kazoo waits", func() bool {
			all, err := m.Contenders(t.Context())
			return err == nil && len(all) == 2
		})
		set(l, "free")
		require.NoError(t, l.Release())
		says("state: free")
		tell()
		says("released")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait(), fmt.Sprint(cmd))
}
