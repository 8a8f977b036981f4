package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// runbook returns the lines of an incident in the guide, and fails unless they are as many as a person
// in a hurry reads.
func runbook(t *testing.T, incident string, most int) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/zkr.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)\n## Incident: " + incident + "\n[^`]*?```sh\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, block)
	lines := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	require.LessOrEqual(t, len(lines), most)
	return lines
}

// operator returns an environment in which zkr is this program, and another one is a script, such as an
// ssh that stays on this machine.
func operator(t *testing.T, server, name, script string) []string {
	t.Helper()
	_, err := exec.LookPath("jq")
	require.NoError(t, err, "the runbook needs jq: make setup installs it on Debian")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "zkr")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700))
	return environ(server, "PATH="+dir+":"+os.Getenv("PATH"))
}

// follow runs lines of the runbook, and returns what they print.
func follow(t *testing.T, env, lines []string, answer string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", strings.Join(lines, "\n"))
	cmd.Env, cmd.Stdin = env, strings.NewReader(answer)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// hang starts a holder that ignores SIGTERM, and one that waits for it.
func hang(t *testing.T, server, path string) (holder, waiter *program) {
	t.Helper()
	holder = start(t, server, "lock", path, "--session-timeout", "10s", "-c", "trap '' TERM; echo held; while :; do sleep 0.1; done")
	holder.await("held")
	waiter = start(t, server, "lock", path, "-c", "echo held; sleep 600")
	eventually(t, "it waits", func() bool { names, _ := places(t, server, path); return len(names) == 2 })
	return holder, waiter
}

func TestTheRunbookKillsAHolderThatHangs(t *testing.T) {
	srv := newServer(t)
	lines := runbook(t, "a lock is stuck", 12)
	holder, waiter := hang(t, srv.Addr(), "/locks/orders")
	here := operator(t, srv.Addr(), "ssh", `shift 2; exec sh -c "$*"`)

	kill := len(lines) - 4 // the line that sends SIGTERM
	require.Contains(t, lines[kill], ` kill "${pid:?}"`)
	out := follow(t, here, lines[:kill+1], "")
	require.Regexp(t, `/locks/orders +mutex +1 +1 `, out)
	require.NotContains(t, out, "DEADLOCK")
	require.Regexp(t, `(?m)^holds +\S+:\d+ `, out)
	require.Regexp(t, `__guard`, out, "ps shows the guard, and below it the command")
	require.Contains(t, out, "sleep 0.1")
	require.Empty(t, waiter.stdout.String(), "the command ignores SIGTERM")

	follow(t, here, append(lines[:kill:kill], lines[kill+1]), "")
	require.Equal(t, -1, holder.wait())
	waiter.await("held")
	require.Regexp(t, `(?m)\A.*\nholds .*\n\z`, follow(t, here, []string{lines[0], lines[len(lines)-1]}, ""))
}

func TestTheRunbookRunsNothingThatAnIdentitySays(t *testing.T) {
	t.Parallel()
	for name, identity := range map[string]string{
		"an option of ssh":    "-oProxyCommand=touch${IFS}pwned:71",
		"a command":           "db7:71;touch pwned",
		"a command as a host": "$(touch pwned):71",
		"a second line":       "db7:71\ndb8:72",
		"a line's end":        "db7:71\n",
		"words":               "db7 holds 2m -:71",
		"a user":              "root@db7:71",
		"init":                "db7:1",
		"all processes":       "db7:-1",
		"a zero":              "db7:071",
		"another number":      "db7:٧٧",
		"no host":             ":71",
		"no process":          "db7",
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			dir := t.TempDir()
			_, err := zkrecipes.NewRWLock(dial(t, srv, identity), "/locks/orders").RLock(t.Context())
			require.NoError(t, err)

			here := operator(t, srv.Addr(), "ssh", `echo "$@" >> called`)
			lines := runbook(t, "a lock is stuck", 12)
			for i, line := range lines { // an interactive shell goes on after an error
				if strings.HasPrefix(line, "ssh ") {
					lines[i] = "(" + line[:strings.Index(line, " #")] + "\n)"
				}
			}
			cmd := exec.Command("bash", "-c", strings.Join(lines, "\n"))
			cmd.Env, cmd.Dir, cmd.Stdin = here, dir, strings.NewReader("y\n")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "ssh was called, or a command was run: %s", out)
			require.Equal(t, 3, strings.Count(string(out), "host: parameter null or not set"), "%s", out)
			require.Contains(t, string(out), "evicted\n")
		})
	}
}
