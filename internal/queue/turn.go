package queue

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// takeInLine waits with a place in the consumers' line for free items, and claims them
// for the takers. The claim deletes the place.
func (t *takerPool) takeInLine(p *line.Place, guess *line.Guess) error {
	scan := t.newScanner(p.Session)
	w := &lineWait{p: p, guess: guess, passed: scan.queue.passed.Load(), patience: ItemPatience}
	w.look = func(ctx context.Context, _ layout.PlaceName) (string, []*zkconn.Watch, error) {
		items, err := scan.free(ctx, 1)
		if len(items) > 0 {
			return items[0], nil, err
		}
		return "", scan.watches, err
	}
	for late := false; ; {
		ahead, err := w.await(t.ctx)
		if err != nil {
			return err
		}
		if n := len(ahead); n > 0 {
			w.passed = ahead[n-1].Number
			scan.queue.passed.Store(w.passed)
		}
		done, err := t.claimAtTurn(scan, p, late)
		late = errors.Is(err, queuelog.ErrStale)
		if done || err != nil && !late {
			return err
		}
	}
}

// claimAtTurn claims what is free. Where nothing is, or nobody wants it, it waits for a change if
// the place is the first in line. late: others have just been quicker. They are if they are nearer to
// the servers and take the first items, too: so then it chooses.
func (t *takerPool) claimAtTurn(scan *scanner, p *line.Place, late bool) (done bool, err error) {
	want, choice := t.wanted(), 0
	if late {
		choice = scan.queue.choice()
	}
	items, err := scan.free(t.ctx, max(want, 1)+choice)
	switch {
	case err != nil:
		return false, err
	case want > 0 && len(items) > 0:
		return t.claimFor(t.ctx, scan, items[:min(want+choice, len(items))], p)
	case want > 0 && !p.HasTurn:
		return false, nil
	}
	return false, line.AwaitAny(t.ctx, p, scan.watches, t.changed)
}
