package zkserver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownVersionIsUnsupported(t *testing.T) {
	p := find(t)
	require.ErrorIs(t, p.Fetch(t.Context(), "2.1"), errors.ErrUnsupported)
	_, err := p.Start(t.Context(), Config{Version: "2.1"})
	require.ErrorContains(t, err, "2.1")
}

func TestZKVersionAllowsNoOther(t *testing.T) {
	t.Setenv("ZK_VERSION", "3.8")
	p := find(t)
	require.NoError(t, p.Fetch(t.Context(), "3.8"))
	require.ErrorIs(t, p.Fetch(t.Context(), "3.9"), errors.ErrUnsupported)
	n, err := p.Start(t.Context(), Config{})
	require.NoError(t, err)
	answer, err := n.Command(t.Context(), "srvr")
	require.NoError(t, err)
	require.Contains(t, answer, "Zookeeper version: 3.8.")
}

func TestAVersionOnRequestNeedsZKVersion(t *testing.T) {
	t.Setenv("ZK_VERSION", "")
	require.ErrorIs(t, find(t).Fetch(t.Context(), OnRequest), errors.ErrUnsupported)
}
