package barrier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A member waits for no predecessor, so a long line has nothing to tell it.
func TestDoubleBarrierOfMoreMembersThanAShortLineHas(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = line.LongLine + 4
		d := w.DoubleOf(n)
		for range 2 {
			var as []*harness.Call[*zkrecipes.Visit]
			for range n {
				as = append(as, recipetest.Enter(t, d))
			}
			recipetest.LeaveAll(t, recipetest.Visits(t, as...)...)
			require.Empty(t, w.Srv.Children("/d"))
		}
	})
}
