package recipetest

import (
	"flag"
	"testing"
)

// long: go test -long runs the tests that take minutes, too, see scripts/test-all.sh.
var long = flag.Bool("long", false, "run the tests that take minutes, too")

func NeedsLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes minutes: run it with -long")
	}
}
