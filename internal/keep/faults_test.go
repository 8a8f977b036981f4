package keep_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for a kept lock.
func TestKeptLockUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.KeepDriver())
}
