package queue

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// takeFirst takes an item of the first of the queues that has one. While all are empty, it looks again
// after each pause.
func takeFirst(ctx context.Context, pause time.Duration, queues ...*zkrecipes.Queue) (*zkrecipes.Item, error) {
	for {
		for _, jobs := range queues {
			job, err := jobs.TryTake(ctx)
			if !errors.Is(err, zkrecipes.ErrEmpty) {
				return job, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
