package queue_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The table of faults (recipetest.Faults) for queues: takes, acks and nacks, puts with and
// without a bound, moves, removals.
//
// B07, B08: the reply to a nack is lost, or it comes while disconnected
// B09, B10, B11: the session ends at each request, in the wait, and in the hold
// B22: the claim or the place is deleted
// B32: the context ends at each request
// B35: Close at each request, with a wait or an item
// B37: a busy server answers each request with an error
// B42: the reply to a put, a redrive, or a removal is lost
// B43: the reply to a claim is lost
// B44, B53: the reply to an ack or a move is lost, with and without operations
func TestQueueUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, append(recipetest.QueueDrivers(), recipetest.QueueTransactionDrivers()...)...)
}
