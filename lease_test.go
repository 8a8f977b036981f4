package zkrecipes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func TestB15InstantsAreMonotonic(t *testing.T) {
	// A wall clock that jumps has no effect on what has a monotonic reading, and
	// time.Time shows whether it has one.
	r := newRig(t, nil)
	l := r.lock()
	require.Contains(t, l.ValidUntil().String(), " m=+")
	s, _ := r.c.session()
	r.p.Drop()
	harness.Eventually(t, "down", func() bool {
		require.Contains(t, s.Inspect().UpSince.String(), " m=+")
		up, _ := s.Connected()
		return !up
	})
	require.NoError(t, l.Release())
}
