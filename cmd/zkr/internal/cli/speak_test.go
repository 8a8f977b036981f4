//go:build unix

package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

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
		"maxClientCnxns":         answering(t, func(net.Conn) {}),
		"connection refused":     "127.0.0.1:1",
		"there is no session: z": zktest.NewServer(t).Addr(),
		"no session: z":          answering(t, say("srvr is not executed because it is not in the whitelist.\n")),
	} {
		why := noConnection(t.Context(), []string{addr}, false, io.EOF)
		if strings.HasSuffix(want, "z") {
			why = noConnection(t.Context(), []string{addr}, false, errText("dial: context deadline exceeded (z)"))
		}
		require.True(t, strings.HasPrefix(why, addr+": "), why)
		require.Contains(t, why, want)
	}
	addr := zktest.NewServer(t).Addr()
	for _, err := range []error{nil, context.DeadlineExceeded} {
		require.Equal(t, addr+": it serves, but there is no session", noConnection(t.Context(), []string{addr}, false, err))
		require.Equal(t, "no server answers", noConnection(t.Context(), []string{addr}, true, err))
	}
	require.Equal(t, "z", noConnection(t.Context(), []string{"127.0.0.1:1"}, true, errText("dial: context deadline exceeded (z)")))
}

type errText string

func (e errText) Error() string { return string(e) }

func TestWhatComesBehindThePathIsTheCommands(t *testing.T) {
	root := (&app{}).root()
	for line, want := range map[string]string{
		"lock /a true":                 "lock /a -- true",
		"lock /a ls -l":                "lock /a -- ls -l",
		"lock /a -n ls -n":             "lock /a -n -- ls -n",
		"lock -w 30 /a ls":             "lock -w 30 /a -- ls",
		"lock /a -w30 ls":              "lock /a -w30 -- ls",
		"lock /a --wait=30 ls":         "lock /a --wait=30 -- ls",
		"lock -nE 4 /a ls -E":          "lock -nE 4 /a -- ls -E",
		"lock -S zk:1 /a ls":           "lock -S zk:1 /a -- ls",
		"-S zk:1 lock /a --tls ls":     "lock -S zk:1 /a --tls -- ls",
		"lock /a -- ls":                "lock /a -- ls",
		"lock /a ls -- x":              "lock /a -- ls -- x",
		"elect /a --value v serve -v":  "elect /a --value v -- serve -v",
		"job /a --every 24h report -n": "job /a --every 24h -- report -n",
		"queue put /q data":            "queue put /q data",
		"lock /a":                      "lock /a",
		"nonsense /a b":                "nonsense /a b",
	} {
		require.Equal(t, want, strings.Join(withDash(root, strings.Fields(line)), " "), line)
	}
}

func TestTheTimeToWaitIsInSecondsUnlessItSays(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second} {
		var s seconds
		require.NoError(t, s.Set(text))
		require.Equal(t, want, time.Duration(s))
	}
	require.Error(t, new(seconds).Set("soon"))
}
