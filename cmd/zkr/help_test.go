//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAShellCompletesWhatIsOnTheServers(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	holder := start(t, srv.Addr(), "lock", "/locks/a", "--identity", "holder:1", "-c", `echo "$ZKR_PLACE."; sleep 600`)
	holder.await(".")
	place := strings.TrimSuffix(strings.TrimSpace(holder.stdout.String()), ".")
	id := strings.TrimSpace(succeed(t, srv.Addr(), "queue", "put", "/jobs", "data"))
	for want, args := range map[string][]string{
		"/locks":                   {"who", "/l"},
		"/locks/a":                 {"lock", "/locks/"},
		"/jobs":                    {"queue", "ls", ""},
		place + "\tholds holder:1": {"evict", "/locks/a", ""},
		id + "\tdata":              {"queue", "bury", "/jobs", ""},
		"json":                     {"ls", "-o", ""},
	} {
		code, stdout, stderr := zkr(t, srv.Addr(), append([]string{"__complete"}, args...)...)
		require.Zero(t, code, args)
		require.Contains(t, strings.Split(stdout, "\n"), want, "%v: %s", args, stderr)
	}
}

func TestThePagesOfTheManualSayWhatAScriptNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	succeed(t, "", "man", dir)
	for _, page := range []string{"zkr.1", "zkr-lock.1", "zkr-queue-bury.1", "zkr-describe.1"} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		require.NoError(t, err)
		for _, section := range []string{".SH EXIT STATUS\n", ".SH ENVIRONMENT\n", ".SH FILES\n", "ZKR_SESSION_TIMEOUT"} {
			require.Contains(t, string(text), section, page)
		}
	}
	require.NotContains(t, succeed(t, "", "help", "who"), "krb5", "what all commands have is a topic of its own")
	require.Contains(t, succeed(t, "", "help", "settings"), "ZKR_KRB5_KEYTAB")
	require.Contains(t, succeed(t, "", "help", "exit-status"), "\n76 ")
}
