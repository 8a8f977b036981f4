package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// Of the queue with dead letters, half of the items fail in every attempt, but not always:
// now and then all processes are fixed for some time, as if a new version ran, and at the
// end they stay so. Then dead letters are redriven. Every second time those of the 8 s before are
// left for that.
const (
	failingAttempts = 3
	fixedEvery      = 8 * time.Second
	fixedFor        = 4 * time.Second
	badItem         = "-bad-"
)

var errBad = errors.New("a bad item")

// fixed reports whether bad items do not fail now. The clock is that of all processes.
func (w *worker) fixed() bool {
	return w.finished() || w.now()%fixedEvery > fixedEvery-fixedFor
}

// try handles an item of the queue with dead letters, or fails.
func (w *worker) try(it *zkrecipes.Item) error {
	if !strings.Contains(string(it.Data), badItem) || w.fixed() {
		w.handle(it, failingKey)
		return nil
	}
	h := w.granted(it, judge.Event{Recipe: judge.RecipeTake, Key: failingKey, Item: string(it.Data), Attempt: it.Attempt})
	h.work(w.ctx)
	h.over()
	return errBad
}

// bury takes a dead letter, for good, unless they are to be left for a redrive.
func (w *worker) bury(q *zkrecipes.Queue) {
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if !w.finished() {
		past := w.now() % (2 * fixedEvery)
		ctx, cancel = context.WithTimeout(ctx, max(fixedEvery-past, 0))
	}
	defer cancel()
	if ctx.Err() == nil {
		w.take(ctx, q, deadKey)
	}
	w.sleep(w.ctx, 500*time.Millisecond, 2*time.Second)
}

// redrive moves some dead letters back while nothing fails.
func (w *worker) redrive(q *zkrecipes.Queue) {
	w.sleep(w.ctx, 20*time.Millisecond, 100*time.Millisecond)
	if !w.fixed() {
		return
	}
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeRedrive, Key: failingKey + judge.RedriveSuffix}
	w.tell(e)
	moved, err := q.Redrive(w.ctx, 1+w.rand.IntN(3))
	w.tell(judge.Event{Kind: judge.Redriven, Key: failingKey, Moved: moved, Uncertain: errors.Is(err, zkrecipes.ErrUncertain)})
	switch {
	case err != nil:
		w.failed(e, err)
	case moved == 0:
		e.Kind, e.Err = judge.Failed, judge.NoLetters
		w.tell(e)
	default:
		e.Kind = judge.Granted
		w.tell(e)
	}
}
