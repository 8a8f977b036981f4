//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What is wrong is named in one line, and neither locked nor run.
func TestWrongInputIsRefusedByName(t *testing.T) {
	srv := newServer(t)
	for _, row := range []struct {
		args []string
		want string // in the line on stderr
	}{
		{[]string{"lock", "/a", "-E", "256", "--", "echo", "ran"}, `"256"`}, // the system would make 0 of it
		{[]string{"lock", "/a", "-E", "-1", "--", "echo", "ran"}, `"-1"`},
		{[]string{"lock", "/a", "--lost-exit-code", "300", "--", "echo", "ran"}, `"300"`},
		{[]string{"lock", "/a", "-w", "0", "--", "echo", "ran"}, `"0"`},
		{[]string{"lock", "/a", "-w", "-5s", "--", "echo", "ran"}, `"-5s"`},
		{[]string{"lock", "/a", "-w", "soon", "--", "echo", "ran"}, `"soon"`},
		{[]string{"lock", "/a", "-k", "0", "--", "echo", "ran"}, `"0"`},
		{[]string{"lock", "/a", "-k", "many", "--", "echo", "ran"}, `"many"`},
		{[]string{"lock", "/a", "--grace", "-1s", "--", "echo", "ran"}, `"-1s"`},
		{[]string{"lock", "/a", "--grace", "8s", "--", "echo", "ran"}, "--grace is 8s"},
		{[]string{"lock", "/a", "-n", "-w", "1s", "--", "echo", "ran"}, "nonblock"},
		{[]string{"lock", "--", "/a", "echo", "ran"}, "before --"},
		{[]string{"lock", "/a"}, "no command"},
		{[]string{"lock", "/a", "--nonsense", "--", "echo", "ran"}, "--nonsense"},
		{[]string{"lock", "relative", "--", "echo", "ran"}, "relative"},
		{[]string{"lock", "/a", "-s", "-k", "2", "--", "echo", "ran"}, "shared"},
		{[]string{"lock", "", "--", "echo", "ran"}, "path is empty"},
		{[]string{"lock", "/a//b", "--", "echo", "ran"}, "/a//b"},
		{[]string{"lock", "/a", "--session-timeout", "soon", "--", "echo", "ran"}, `"soon"`},
		{[]string{"lock", "/a", "-S", "zk1:0:0", "--", "echo", "ran"}, "zk1:0:0"},
		{[]string{"lock", "/a", "-o", "xml", "--", "echo", "ran"}, `"xml"`},
		{[]string{"elect", "/a", "--grace", "1h", "--", "echo", "ran"}, "--grace is 1h"},
		{[]string{"job", "/a", "--every", "1ms", "--", "echo", "ran"}, `"1ms"`},
		{[]string{"job", "/a", "--", "echo", "ran"}, `"every"`},
		{[]string{"job", "/a", "--every", "1h", "-w", "0s", "--", "echo", "ran"}, `"0s"`},
		{[]string{"nonsense"}, `"nonsense"`},
		{[]string{"queue", "nonsense"}, `"nonsense" for "zkr queue"`},
		{[]string{"gate", "ajar", "/a"}, `"ajar" for "zkr gate"`},
		{[]string{"queue", "put", "/a", "data", "--lines"}, "--lines"},
		{[]string{"queue", "redrive", "/a", "-n", "0"}, `"0"`},
		{[]string{"sem", "resize", "/a", "-1"}, "-1"},
		{[]string{"graph", "--format", "png"}, `"png"`},
		{[]string{"ls", "relative"}, "relative"},
		{[]string{"ls", "--watch", "--interval", "1ms"}, `"1ms"`},
		{[]string{"top"}, "terminal"},
		{[]string{"ls", "--tls=perhaps"}, `"perhaps"`},
		{[]string{"serve", "--stale", "0s"}, `"0s"`},
		{[]string{"serve", "--refresh", "1ms"}, `"1ms"`},
		{[]string{"serve", "--requests", "3"}, `"3"`},
		{[]string{"serve", "--lines", "0"}, `"0"`},
	} {
		code, stdout, stderr := zkr(t, srv.Addr(), row.args...)
		require.Equal(t, 64, code, "%v: %s", row.args, stderr)
		require.NotContains(t, stdout, "ran", row.args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%v: %s", row.args, stderr)
		require.Contains(t, stderr, row.want, row.args)
	}
	require.Equal(t, []string{"zookeeper"}, srv.Children("/"), "nothing was created")
}

// What a user with credentials owns is shown to that user only.
func TestCredentials(t *testing.T) {
	srv := newServer(t)
	recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.DialTo(t, []string{srv.Addr()}, &zkrecipes.Options{
		Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:secret")}}, ACL: zk.AuthACL(zk.PermAll),
	}), "/private"))
	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("digest:user:secret\n"), 0o600))
	for _, row := range []credentials{
		{"ZKR_AUTH=digest:user:secret", nil, 0},
		{"OTHER=1", []string{"--auth-file", file}, 0},
		{"ZKR_AUTH_FILE=" + file, nil, 0},
		{"OTHER=1", nil, 77},
		{"ZKR_AUTH=digest:user:wr0ng", nil, 77},
		{"ZKR_AUTH=digest", nil, 78},
	} {
		row.check(t, srv.Addr(), "who", "/private")
	}
	for _, command := range []string{"ls", "graph"} {
		credentials{"OTHER=1", nil, 77}.check(t, srv.Addr(), command, "/private")
	}
	code, _, stderr := zkr(t, srv.Addr(), "ls", "-o", "json")
	require.Zero(t, code, "what is below is skipped: %s", stderr)
	require.Equal(t, []object{{"error": "zkrecipes: look at /private: zk: not authenticated"}}, objects(t, stderr))
}

// credentials are a variable and flags, with which zkr ends with a status.
type credentials struct {
	env   string
	flags []string
	want  int
}

func (c credentials) check(t *testing.T, server string, args ...string) {
	t.Helper()
	code, stdout, stderr := zkrWith(t, server, []string{c.env}, append(args, c.flags...)...)
	require.Equal(t, c.want, code, "%v: %s", c, stderr)
	require.Equal(t, c.want == 0, stdout != "")
	require.NotContains(t, stderr, "wr0ng", "no error shows a secret")
}

// The server requires SASL.
func TestSASL(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer(t, zktest.TickTime(time.Second), zktest.SASL(map[string]string{"alice": "secret"}), zktest.RequireSASL())
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	for _, row := range []credentials{
		{"ZKR_SASL_PASSWORD=secret", []string{"--sasl-user", "alice"}, 0},
		{"ZKR_SASL_USER=alice", []string{"--sasl-password-file", file}, 0},
		{"ZKR_SASL_PASSWORD_FILE=" + file, []string{"--sasl-user", "alice"}, 0},
		{"ZKR_SASL_PASSWORD=wr0ng", []string{"--sasl-user", "alice"}, 77},
		{"ZKR_SASL_PASSWORD=secret", []string{"--sasl-user", "mallory"}, 77},
		{"ZKR_SASL_PASSWORD=secret", nil, 77},
		{"OTHER=1", []string{"--sasl-user", "alice"}, 78},
	} {
		row.check(t, srv.Addr(), "lock", "/a", "-c", "echo ran")
	}
}

// With -o json each line of the output is JSON, and so is what a failure says.
func TestEachCommandPrintsJSON(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/a")
	waiter := start(t, srv.Addr(), "lock", "/a", "-E", "7", "--", "true")
	awaitLine(t, srv, "/a", 2)
	names, _ := places(t, srv.Addr(), "/a")
	for _, args := range [][]string{
		{"ls"}, {"who", "/a"}, {"graph"}, {"evict", "/a", names[1], "--yes"},
		{"queue", "put", "/q", "one"}, {"queue", "ls", "/q"}, {"queue", "peek", "/q"}, {"queue", "purge", "/q", "--yes"},
		{"queue", "redrive", "/q"}, {"gate", "shut", "/g"}, {"gate", "open", "/g"}, {"gate", "show", "/g"}, {"gate", "wait", "/g"},
		{"sem", "resize", "/s", "3"},
	} {
		code, stdout, stderr := zkr(t, srv.Addr(), append(args, "-o", "json")...)
		require.Zero(t, code, "%v: %s", args, stderr)
		require.NotEmpty(t, objects(t, stdout), args)
	}
	require.Equal(t, 7, waiter.wait(), "it was evicted")
	for _, args := range [][]string{
		{"lock", "/a", "-n", "--", "true"}, {"job", "/a", "--every", "1h", "-S", "127.0.0.1:1", "--connect-timeout", "200ms", "--", "true"},
		{"elect", "/a", "--", "true"}, {"queue", "peek", "/nothing"}, {"queue", "remove", "/q", "nothing"}, {"who", "/nothing"},
		{"evict", "/a", "nothing"}, {"lock", "/a", "--", "no-such-command"}, {"lock", "/a"},
	} {
		code, _, stderr := zkrWith(t, srv.Addr(), []string{"ZKR_OUTPUT=json"}, args...)
		require.NotZero(t, code, args)
		var failure struct {
			Error string
			Exit  int
		}
		require.NoError(t, json.Unmarshal([]byte(stderr), &failure), "%v: %s", args, stderr)
		require.NotEmpty(t, failure.Error)
		require.Equal(t, code, failure.Exit, args)
	}
}

func TestAShellCompletesWhatIsOnTheServers(t *testing.T) {
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
