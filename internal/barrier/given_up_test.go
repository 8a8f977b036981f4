package barrier_test

import (
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
	for name, wait := range map[string]func(w *world, c *zkrecipes.Client) interface{ Waiting() bool }{
		"barrier": func(w *world, c *zkrecipes.Client) interface{ Waiting() bool } { return w.waitsIn(c, 2) },
		"double":  func(w *world, c *zkrecipes.Client) interface{ Waiting() bool } { return w.entersIn(c, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.Stranger(nil)
				first := wait(w, c)
				synctest.Wait()
				time.Sleep(3 * time.Second)
				w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setWatches", Code: -1, Times: -1})
				require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
				for first.Waiting() {
					time.Sleep(10 * time.Millisecond)
				}
				again := wait(w, c)
				time.Sleep(3 * time.Second)
				require.True(t, again.Waiting(), "a barrier of 2 has opened for one member")
			})
		})
	}
}
