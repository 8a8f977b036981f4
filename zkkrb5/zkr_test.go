//go:build linux

package zkkrb5_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Zkr, with a keytab and with the credentials cache of kinit.
func TestTheCommandLineUsesKerberos(t *testing.T) {
	zkr := filepath.Join(t.TempDir(), "zkr")
	out, err := exec.Command("go", "build", "-o", zkr, "github.com/zkrecipes/zkrecipes/cmd/zkr").CombinedOutput()
	require.NoError(t, err, "%s", out)
	k := newKDC(t, day)
	k.start(0)
	server := startServer(t, k, "", "zookeeper")
	run := func(env ...string) (string, error) {
		cmd := exec.Command(zkr, "lock", "/a", "--connect-timeout", "2m", "-c", "echo ran")
		cmd.Env = append(os.Environ(), append(env, "ZKR_SERVERS="+server, "ZKR_KRB5_CONF="+k.conf())...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, env := range [][]string{
		{"ZKR_KRB5_PRINCIPAL=alice", "ZKR_KRB5_KEYTAB=" + k.path("alice.keytab")},
		{"ZKR_KRB5_PRINCIPAL=alice", "KRB5CCNAME=FILE:" + k.kinit()},
	} {
		out, err := run(env...)
		require.NoError(t, err, out)
		require.Equal(t, "ran\n", out)
	}
	out2, err := run("ZKR_KRB5_PRINCIPAL=alice", "ZKR_KRB5_KEYTAB="+k.path("server.keytab"))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 77, exit.ExitCode(), out2)
	require.Contains(t, out2, `SASL GSSAPI as "alice@`+realm+`"`)
}
