package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyADeadOwnerLeavesOrphans(t *testing.T) {
	if owner(os.Getpid()) == "" {
		t.Skip("no /proc")
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	child := owner(cmd.Process.Pid)
	require.False(t, orphaned(child))
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.True(t, orphaned(child))
	require.False(t, orphaned("another-machine/"+strings.SplitN(child, "/", 2)[1]))
	require.False(t, orphaned(""))
}
