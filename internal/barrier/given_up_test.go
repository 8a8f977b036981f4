package barrier_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A session that servers answer but do not serve is given up. Its member must be gone then: beside
// the next one of the same process, it would open a barrier of two.
func TestAMemberOfASessionThatWasGivenUpDoesNotCount(t *testing.T) {
	t.Run("barrier", func(t *testing.T) { testGivenUp(t, (*world).waitsIn) })
	t.Run("double barrier", func(t *testing.T) { testGivenUp(t, (*world).entersIn) })
}

func testGivenUp[C interface {
	Wait() (R, error)
	Waiting() bool
}, R any](t *testing.T, join func(w *world, c *zkrecipes.Client, n int) C) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.Stranger(nil)
		first := join(w, c, 2)
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		_, err := first.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLost)

		again := join(w, c, 2)
		time.Sleep(recipetest.DefaultSessionTimeout / 2) // in which a member of the session before would stand
		require.True(t, again.Waiting(), "a barrier of 2 has opened for one member")
		require.Equal(t, 1, strings.Count(w.Srv.Tree(), "ephemeral="), "the next member is there")
	})
}
