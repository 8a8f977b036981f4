package queue_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for queues.
func TestQueueUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.QueueDrivers()...)
}
