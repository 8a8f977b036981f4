package assert

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnInvariantIsCheckedOnlyWhereTestsSaySo(t *testing.T) {
	t.Cleanup(func() { Failed, SimulatedTime = nil, false })
	holds, asked := false, 0
	ask := func() bool { asked++; return holds }
	Holds("A", ask)
	HoldsNow("B", ask)
	require.Zero(t, asked)

	var failed []string
	Failed = func(invariant string) { failed = append(failed, invariant) }
	Holds("A", ask)
	HoldsNow("B", ask)
	require.Equal(t, []string{"A"}, failed)

	SimulatedTime = true
	HoldsNow("B", ask)
	holds = true
	Holds("A", ask)
	require.Equal(t, []string{"A", "B"}, failed)
}
