package queue_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for queues: takes, acks and nacks, puts with and
// without a bound, moves, removals.
//
// The reply to a nack is lost, or it comes while disconnected
// The session ends at each request, in the wait, and in the hold
// The claim or the place is deleted
// The context ends at each request
// Close at each request, with a wait or an item
// A busy server answers each request with an error
// The reply to a put, a redrive, or a removal is lost
// The reply to a claim is lost
// The reply to an ack or a move is lost, with and without operations
func TestQueueUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.QueueDrivers(), recipetest.QueueTransactionDrivers()...)...)
}
