//go:build unix

package cli

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
