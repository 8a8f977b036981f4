package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Queue has the figures of the queues of one path, which is what Config.Path makes of it.
type Queue struct {
	Path   string
	Len    int           // items, with those that are taken
	Oldest time.Duration // the age of the oldest of these, 0 if there are none
	Dead   int           // dead letters
}

type queueFigures = Queue

// PollQueue reads the figures of a queue at once and then at each interval, and blocks until
// ctx ends. Then it returns nil. If a poll gets no answer within the interval, the figures are
// not shown until a later one gets one. Any other error ends it. Once it has returned, the
// figures are not shown any more.
func (m *Meter) PollQueue(ctx context.Context, q *zkrecipes.Queue, interval time.Duration) error {
	if interval <= 0 {
		return fmt.Errorf("zkrecipes: poll %q: interval %v", q.Path(), interval)
	}
	own := new(zkrecipes.Queue) // a poll's own: several may be of one queue
	defer m.forgetQueue(own)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		f, err := m.readQueue(ctx, q, interval)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			m.forgetQueue(own)
		case err != nil:
			return err
		default:
			m.mu.Lock()
			m.queues[own] = f
			m.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
