package queue_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for queues: takes, acks and nacks, puts with and
// without a bound, moves, removals.
func TestQueueUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.QueueDrivers(), recipetest.QueueTransactionDrivers()...)...)
}
