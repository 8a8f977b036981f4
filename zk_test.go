package zkrecipes_test

import (
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestMain runs the tests on a ZooKeeper server that internal/zkserver finds or starts.
// With ZK_HARNESS=zktest it runs them on an in-process server, without the tests that
// kill server processes or need several servers.
func TestMain(m *testing.M) {
	os.Exit(harness.Run(m))
}

// eachInBubble runs f for each case, in a bubble of its own.
func eachInBubble[C any](t *testing.T, cases map[string]C, f func(t *testing.T, w *recipetest.World, name string, c C), opts ...zktest.Option) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, name, c) }, opts...)
		})
	}
}
