//go:build unix

package main

import (
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
