package zkrecipes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func TestB15InstantsAreMonotonic(t *testing.T) {
	// A jump of the wall clock has no effect on a time with a monotonic reading, and
	// time.Time's String shows whether there is one.
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
