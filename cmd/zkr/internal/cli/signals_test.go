//go:build unix

package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A signal that comes as the call ends is either taken, or left for the command that runs next.
func TestNoSignalIsLostBetweenWaitingAndRunning(t *testing.T) {
	for range 2000 {
		a := &app{signals: make(chan os.Signal, 16)}
		err := a.waiting(t.Context(), func(context.Context) error {
			a.signals <- syscall.SIGTERM
			return nil
		})
		if err == nil {
			require.Len(t, a.signals, 1)
			continue
		}
		require.Equal(t, exitSignal+int(syscall.SIGTERM), exitCode(err))
		require.Empty(t, a.signals)
	}
}

// interrupt runs zkr, and interrupts it after begin.
func interrupt(t *testing.T, stdin io.Reader, begin func(), args ...string) {
	t.Helper()
	a := &app{stdin: stdin, stdout: &checked{Writer: io.Discard}, stderr: io.Discard, signals: make(chan os.Signal, 1)}
	code := make(chan int, 1)
	go func() { code <- a.run(args) }()
	begin()
	a.signals <- syscall.SIGINT
	select {
	case got := <-code:
		require.Equal(t, 130, got, args)
	case <-time.After(time.Minute):
		require.FailNow(t, "it goes on", args)
	}
}

func TestASignalEndsTheWaitForAFileThatNobodyWrites(t *testing.T) {
	for _, args := range [][]string{
		{"ls", "--config"}, {"ls", "--auth-file"}, {"ls", "--sasl-user", "alice", "--sasl-password-file"},
		{"serve", "--listen", "127.0.0.1:0", "--allow-actions", "--token-file"},
	} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		interrupt(t, nil, func() {
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once zkr has opened it, too
			require.NoError(t, err)
			t.Cleanup(func() { w.Close() })
		}, append(args, fifo)...)
	}
}

func TestASignalEndsPutWhileItReads(t *testing.T) {
	srv := zktest.NewServer(t)
	q := zkrecipes.NewQueue(recipetest.DialTo(t, []string{srv.Addr()}, nil), "/q", nil)
	put := func(typed []string, flags ...string) {
		r, w := io.Pipe()
		defer w.Close()
		interrupt(t, r, func() {
			for _, text := range typed { // each is read once the one before was put
				_, err := io.WriteString(w, text)
				require.NoError(t, err)
			}
		}, append([]string{"queue", "put", "/q", "-S", srv.Addr()}, flags...)...)
	}
	put([]string{"first\n", "second"}, "--lines")
	put([]string{"third"})
	n, err := q.Len(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n, "what was put stays, and a part of an item is none")
}

func TestASignalEndsACampaignIfItHasEndedTheCommand(t *testing.T) {
	for r, want := range map[guard.Result]bool{
		{Told: syscall.SIGTERM}: true, {Told: syscall.SIGINT}: true, {Told: syscall.SIGQUIT, Code: 1}: true, {Told: syscall.SIGHUP, Signal: 1}: true,
		{}: false, {Late: true}: false, {Told: syscall.SIGUSR1}: false, // others: see TestElectCampaignsAgainAfterALoss
	} {
		require.Equal(t, want, outcome{Result: r}.isToldToEnd(), r)
	}
}
