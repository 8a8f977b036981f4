//go:build unix

package demo

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNobodyStandsStillOnceTheWorkersAreToldToStop(t *testing.T) {
	worker := exec.Command("sleep", "600")
	require.NoError(t, worker.Start())
	crew := &crew{processes: make([]atomic.Pointer[os.Process], 1)}
	crew.processes[0].Store(worker.Process)
	crew.stop()
	require.NoError(t, crew.try(Freeze, 0))
	require.NoError(t, worker.Process.Signal(syscall.SIGTERM)) // which a process that stands still does not get
	require.EqualError(t, worker.Wait(), "signal: terminated")
}
