package zkrecipes

import (
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// The tests run on a ZooKeeper that internal/zkserver finds or starts. With
// ZK_HARNESS=zktest they run on one inside the process: all but those that end
// servers' processes, or need several servers.
func TestMain(m *testing.M) {
	os.Exit(harness.Run(m))
}
