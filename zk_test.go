package zkrecipes

import (
	"flag"
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// long: go test -long runs the tests that take minutes, too, see make test-long.
var long = flag.Bool("long", false, "run the tests that take minutes, too")

func needsLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes minutes: run it with -long")
	}
}

// TestMain runs the tests on a ZooKeeper server that internal/zkserver finds or starts.
// With ZK_HARNESS=zktest it runs them on an in-process server, without the tests that
// kill server processes or need several servers.
func TestMain(m *testing.M) {
	os.Exit(harness.Run(m))
}
