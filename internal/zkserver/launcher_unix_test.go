//go:build unix

package zkserver

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The launcher's watcher removes what the launcher has started.
func TestAKilledLauncherLeavesNothingBehindAndCallsFail(t *testing.T) {
	p, err := Find(t.Context(), t.Logf)
	require.NoError(t, err)
	if p.External() != nil {
		t.Skip("external servers cannot be controlled")
	}
	n, err := p.Start(t.Context(), Config{})
	require.NoError(t, err)
	require.NotEmpty(t, leftovers(t, p.traces.Label, p.traces.Dir))
	require.NoError(t, syscall.Kill(-p.launcher.cmd.Process.Pid, syscall.SIGKILL)) // with the go command
	require.Eventually(t, func() bool {
		return len(leftovers(t, p.traces.Label, p.traces.Dir)) == 0
	}, time.Minute, 100*time.Millisecond)
	require.ErrorContains(t, n.Pause(t.Context()), "has ended")
	require.Error(t, p.Close())
}
