// Package queue has the code of docs/queue.md.
package queue

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
)

// DeadLetters counts the dead letters of the queue /jobs.
func DeadLetters(ctx context.Context, client *zkrecipes.Client) (int, error) {
	n, err := zkrecipes.NewQueue(client, "/jobs-dead", nil).Len(ctx)
	return n, err
}
