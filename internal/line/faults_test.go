package line_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for all kinds of locks.
//
// A03: the rival's session ends, at each request of its release
// A14: each client uses the lock again after each fault
// A16, B20: the place between the holder's and the client's leaves
// B01, B06, B07: the connection is lost before and after each request is carried out
// B03: all servers lag
// B05, B08: cut off before the call, and before the release
// B09, B10, B11, B12: the session ends at each request, in the wait, and in the hold
// B19, B21: what is ahead goes at each request, and while the client is cut off
// B22: the place is deleted at each request, in the wait, and in the hold
// B32, B33: the context ends at each request, before the call, and while cut off
// B35: Close at each request, with a wait or a lease, and while cut off
// B37: a busy server answers each request with an error
// B53: a Commit meets each of these faults
func TestLocksUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.LockDrivers(), recipetest.DowngradeDriver(), recipetest.LockAllDriver(), recipetest.GateDriver())...)
}
