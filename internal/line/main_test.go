package line_test

import (
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// eachInBubble runs f for each of the cases, in a world of its own.
func eachInBubble[C any](t *testing.T, cases map[string]C, f func(t *testing.T, w *recipetest.World, c C)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, c) })
		})
	}
}
