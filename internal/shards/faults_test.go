package shards_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults): one process at a time has a shard, and nothing is left of one
// that has left.
func TestShardsUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.ShardsDriver())
}
