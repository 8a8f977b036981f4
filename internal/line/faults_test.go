package line_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for all kinds of locks.
func TestLocksUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.LockDrivers(), recipetest.DowngradeDriver(), recipetest.LockAllDriver(), recipetest.GateDriver())...)
}
