//go:build unix

package cli

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
)

func TestASignalEndsACampaignIfItHasEndedTheCommand(t *testing.T) {
	for want, results := range map[bool][]guard.Result{
		true: {
			{Told: syscall.SIGTERM}, {Told: syscall.SIGTERM, Late: true},
			{Told: syscall.SIGINT}, {Told: syscall.SIGQUIT, Code: 1}, {Told: syscall.SIGHUP, Signal: 1},
		},
		false: {
			{}, {Late: true}, {Told: syscall.SIGUSR1},
			{Told: syscall.SIGINT, Late: true}, {Told: syscall.SIGHUP, Late: true}, {Told: syscall.SIGQUIT, Late: true},
		},
	} {
		for _, r := range results {
			require.Equal(t, want, outcome{Result: r}.isToldToEnd(), r)
		}
	}
}
