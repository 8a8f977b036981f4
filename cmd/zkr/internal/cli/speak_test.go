//go:build unix

package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestHoldersAndThoseAheadAreNamed(t *testing.T) {
	now := time.Now()
	l := view.Line{Places: []view.Place{
		{Identity: "a:1", Session: 1, Since: now.Add(-185 * time.Second), Held: true},
		{Identity: "b:2", Session: 2}, {Identity: "c:3", Session: 3}, {Identity: "d:4", Session: 4},
	}}
	require.Equal(t, "held by a:1 for 3m5s, session 0x1; 2 ahead in the line", holdersOf(now, l, 4))
	require.Equal(t, "held by a:1 for 3m5s, session 0x1", holdersOf(now, l, 2))
	l.Places[0].Contender.HeldSince = now.Add(-time.Minute)
	l.Places[1].Held = true
	require.Equal(t, "held by a:1 for 1m0s, session 0x1, and 1 more; 1 ahead in the line", holdersOf(now, l, 4))
	require.Empty(t, holdersOf(now, view.Line{}, 4))
}

// answering is a server that does one thing with each connection.
func answering(t *testing.T, answer func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			answer(nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

func TestAServerThatDoesNotServeIsNamedWithTheReason(t *testing.T) {
	say := func(text string) func(net.Conn) {
		return func(nc net.Conn) {
			_, _ = io.ReadFull(nc, make([]byte, 4))
			_, _ = io.WriteString(nc, text)
		}
	}
	for want, addr := range map[string]string{
		"no quorum":              answering(t, say("This ZooKeeper instance is not currently serving requests\n")),
		"nobody who may write":   answering(t, say("Zookeeper version: 3.9.3\nMode: read-only\n")),
		"maxClientCnxns":         answering(t, func(net.Conn) {}),
		"connection refused":     "127.0.0.1:1",
		"there is no session: z": zktest.NewServer(t).Addr(),
		"no session: z":          answering(t, say("srvr is not executed because it is not in the whitelist.\n")),
	} {
		a := &app{servers: []string{addr}}
		why := a.noConnection(t.Context(), io.EOF)
		if strings.HasSuffix(want, "z") {
			why = a.noConnection(t.Context(), errText("dial: context deadline exceeded (z)"))
		}
		require.True(t, strings.HasPrefix(why, addr+": "), why)
		require.Contains(t, why, want)
	}
	a := &app{servers: []string{zktest.NewServer(t).Addr()}}
	withTLS := &app{servers: a.servers, isTLS: true}
	for _, err := range []error{nil, context.DeadlineExceeded} {
		require.Equal(t, a.servers[0]+": it serves, but there is no session", a.noConnection(t.Context(), err))
		require.Equal(t, "no server answers", withTLS.noConnection(t.Context(), err))
	}
	require.Equal(t, "z", withTLS.noConnection(t.Context(), errText("dial: context deadline exceeded (z)")))
}

type errText string

func (e errText) Error() string { return string(e) }

func TestWhatComesBehindThePathIsTheCommands(t *testing.T) {
	for line, want := range map[string]string{
		"lock /a true":               "true",
		"lock /a ls -l":              "ls -l",
		"lock /a -n ls -n":           "ls -n",
		"lock -w 30 /a ls":           "ls",
		"lock /a -w30 ls":            "ls",
		"lock /a --wait=30 ls":       "ls",
		"lock -nE 4 /a ls -E":        "ls -E",
		"lock -S zk:1 /a ls":         "ls",
		"-S zk:1 lock /a --tls ls":   "ls",
		"lock /a -- ls":              "ls",
		"lock /a ls -- x":            "ls -- x",
		"lock /a -c true x -n":       "x -n",
		"elect /a --value v ls -v":   "ls -v",
		"job /a --every 24h true -n": "true -n",
	} {
		root := (&app{}).root()
		root.PersistentPreRunE = nil
		setArgs(root, strings.Fields(line))
		c, _, err := root.Find(strings.Fields(line))
		require.NoError(t, err)
		got := ""
		c.RunE = func(c *cobra.Command, _ []string) error {
			got = strings.Join(c.Flags().Args(), " ")
			return nil
		}
		require.NoError(t, root.Execute(), line)
		require.Equal(t, want, got, line)
	}
	require.Contains(t, output(t, "lock", "/a", "--help"), "Usage:")
}

func TestTheTimeToWaitIsInSecondsUnlessItSays(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second} {
		got, err := parseSeconds(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// The session in which the lock is granted may be another one than that in which zkr has checked it.
func TestTheGraceIsAtMostHalfOfTheSessionTimeout(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, 9 * time.Second: 5 * time.Second} {
		require.Equal(t, want, (&command{grace: grace, isGrace: true}).graceIn(10*time.Second))
	}
	require.Equal(t, 2500*time.Millisecond, (&command{}).graceIn(10*time.Second))
}
