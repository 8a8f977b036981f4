package recipetest

import (
	"flag"
	"testing"
)

// long: go test -long runs the tests that take minutes, too, see scripts/test-all.sh.
var long = flag.Bool("long", false, "run the tests that take minutes, too")

// Long reports whether the tests that take minutes run.
func Long() bool { return *long }

// NeedsLong skips the test unless the tests that take minutes run.
func NeedsLong(t *testing.T) {
	t.Helper()
	if !Long() {
		t.Skip("takes minutes: run it with -long")
	}
}
