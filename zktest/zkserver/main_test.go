package main

import (
	"bufio"
	"context"
	"io"
	"log"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// serve runs the command and returns a function that reads the address that it
// prints.
func serve(t *testing.T, restart <-chan os.Signal, args ...string) (address func() string) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, restart, w) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	lines := bufio.NewScanner(r)
	return func() string {
		require.True(t, lines.Scan())
		addr, ok := strings.CutPrefix(lines.Text(), "listening on ")
		require.True(t, ok, lines.Text())
		return addr
	}
}

func TestClientsReachTheServerAndItsSessionsOutliveAHangup(t *testing.T) {
	restart := make(chan os.Signal)
	address := serve(t, restart, "-listen", "127.0.0.1:0", "-version", "3.8", "-tick", "1s")
	addr := address()
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	session := conn.SessionID()
	restart <- syscall.SIGHUP
	require.Equal(t, addr, address())
	for connected := 0; connected < 2; {
		if e := <-events; e.State == zk.StateHasSession {
			connected++
		}
	}
	require.Equal(t, session, conn.SessionID())
	found, _, err := conn.Exists("/e")
	require.NoError(t, err)
	require.True(t, found)
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-version", "2.1"}, {"-listen", "nowhere:x"}, {"more"}, {"-unknown"}} {
		require.Error(t, run(t.Context(), args, nil, io.Discard), args)
	}
}
