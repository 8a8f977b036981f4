package line_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for all kinds of locks.
//
// The rival's session ends, at each request of its release
// Each client uses the lock again after each fault
// The place between the holder's and the client's leaves
// The connection is lost before and after each request is carried out
// All servers lag
// Cut off before the call, and before the release
// The session ends at each request, in the wait, and in the hold
// What is ahead goes at each request, and while the client is cut off
// The place is deleted at each request, in the wait, and in the hold
// The context ends at each request, before the call, and while cut off
// Close at each request, with a wait or a lease, and while cut off
// A busy server answers each request with an error
// A Commit meets each of these faults
func TestLocksUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.LockDrivers(), recipetest.DowngradeDriver(), recipetest.LockAllDriver(), recipetest.GateDriver())...)
}
