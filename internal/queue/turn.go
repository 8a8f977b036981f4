package queue

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// Consumers take turns, so that a put wakes few of them. Turns are for quiet and order
// only. A claim excludes the other consumers, whether it is made at a turn or not.

// takeInLine waits with a place in the consumers' line for free items, and claims them
// for the takers. The claim deletes the place.
func (t *takerPool) takeInLine(p *line.Place, guess *line.Guess) (err error) {
	defer func() {
		if err != nil {
			t.noteFailure()
		}
	}()
	scan := t.newScanner(p.Session)
	w := &lineWait{p: p, guess: guess, passed: scan.queue.passed.Load(), patience: Grace}
	w.look = func(ctx context.Context, _ placename.Parts) (string, []watch, <-chan struct{}, error) {
		items, err := scan.free(ctx, 1)
		if len(items) > 0 {
			return items[0], nil, nil, err
		}
		return "", scan.watches, nil, err
	}
	for {
		ahead, err := w.await(t.ctx)
		if err != nil {
			return err
		}
		if n := len(ahead); n > 0 {
			w.passed = ahead[n-1].Number
			scan.queue.passed.Store(w.passed)
		}
		done, err := t.claimAtTurn(scan, p)
		if done || err != nil && !errors.Is(err, queuelog.ErrStale) {
			return err
		}
	}
}

// claimAtTurn claims what is free. Where nothing is, or nobody wants it, it waits for a change if
// the place is the first in line.
func (t *takerPool) claimAtTurn(scan *scanner, p *line.Place) (done bool, err error) {
	want := t.wanted()
	items, err := scan.free(t.ctx, max(want, 1))
	switch {
	case err != nil:
		return false, err
	case want > 0 && len(items) > 0:
		return t.claimFor(t.ctx, scan, items[:min(want, len(items))], p)
	case want > 0 && !p.First:
		return false, nil
	}
	if err := p.WatchOwn(t.ctx); err != nil {
		return false, err
	}
	return false, line.AwaitAnyOr(t.ctx, p, scan.watches, t.changed)
}
