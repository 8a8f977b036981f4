package zkrecipes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// A member waits for no predecessor, so a long line has nothing to tell it.
func TestDoubleBarrierOfMoreMembersThanAShortLineHas(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = line.LongLine + 4
		d := w.doubleOf(n)
		for range 2 {
			var as []*harness.Call[*Visit]
			for range n {
				as = append(as, enter(t, d))
			}
			leaveAll(t, visits(t, as...)...)
			require.Empty(t, w.srv.Children("/d"))
		}
	})
}
