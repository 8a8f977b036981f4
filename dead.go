package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// deadPath returns the absolute path of the queue of the dead letters.
func (q *Queue) deadPath() string { return q.c.abs(q.opts.DeadLetter) }

// bury moves an item that was taken too often to the dead letters. Whoever takes
// it does so, before anybody gets it: so an item that kills each process which
// works on it does not stay at the head for ever.
func (q *Queue) bury(ctx context.Context, it *Item) error {
	err := (&ending{it: it, to: it.lease.g.s.stockOf(q.deadPath())}).run(ctx)
	if err == nil {
		q.c.hooks.log(slog.LevelWarn, "item was moved to the dead letters", "item", it.ID, "queue", q.path,
			"dead letters", q.opts.DeadLetter, "attempts", it.Attempt-1)
		return nil
	}
	q.c.tasks.start(func() { it.lease.Release() }) // it was not, or is gone
	if errors.Is(err, ErrLost) || errors.Is(err, ErrUncertain) {
		return nil // its next consumer does it, if it was not done
	}
	return fmt.Errorf("move item %s to the dead letters, %s: %w", it.ID, q.opts.DeadLetter, err)
}
