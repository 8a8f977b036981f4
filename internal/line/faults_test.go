package line_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for all kinds of locks.
//
// the rival's session ends, at each request of its release
// each client uses the lock again after each fault
// the place between the holder's and the client's leaves
// the connection is lost before and after each request is carried out
// all servers lag
// cut off before the call, and before the release
// the session ends at each request, in the wait, and in the hold
// what is ahead goes at each request, and while the client is cut off
// the place is deleted at each request, in the wait, and in the hold
// the context ends at each request, before the call, and while cut off
// Close at each request, with a wait or a lease, and while cut off
// a busy server answers each request with an error
// a Commit meets each of these faults
func TestLocksUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.LockDrivers(), recipetest.DowngradeDriver(), recipetest.LockAllDriver(), recipetest.GateDriver())...)
}
