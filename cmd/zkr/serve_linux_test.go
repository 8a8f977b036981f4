package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// peakOf returns the most memory that a program has had, in MiB.
func peakOf(t *testing.T, p *program) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib / 1024
}

// Everybody who may write znodes chooses identities, of up to a megabyte.
func TestServeKeepsAPartOfEachLongIdentity(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	conn := harness.RawTo(t, []string{srv.Addr()})
	create := func(path string, data []byte, flags int32) {
		_, err := conn.Create(path, data, flags, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	create("/line", nil, 0)
	long := bytes.Repeat([]byte("x"), 500_000)
	for i := range 100 {
		create(fmt.Sprintf("/line/_c_%08d-0000-4000-8000-000000000000-lock-", i), long, zk.FlagEphemeral|zk.FlagSequence)
	}
	p := start(t, srv.Addr(), "serve", "--listen", "127.0.0.1:0")
	reply, err := (&http.Client{Timeout: time.Minute}).Get(p.address() + "events?line=/line")
	require.NoError(t, err)
	defer reply.Body.Close()
	_, err = io.CopyN(io.Discard, reply.Body, 100*250) // those of the places
	require.NoError(t, err)
	peak := peakOf(t, p)
	t.Logf("100 identities of 500 kB: %d MiB at most", peak)
	require.Less(t, peak, 100)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+15, p.wait())
}
