package zkrecipes_test

import (
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// TestMain runs the tests on a ZooKeeper server that internal/zkserver finds or starts.
// With ZK_HARNESS=zktest it runs them on an in-process server, without the tests that
// kill server processes or need several servers.
func TestMain(m *testing.M) {
	os.Exit(harness.Run(m))
}
