package main

import (
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// add adds 1 to the counter. Nobody changes it otherwise, so a value is a token, and a write over
// the value before: the judge finds one that two calls return, and one that is lost.
func (w *worker) add(x *zkrecipes.Counter) {
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeCounter, Key: counterKey, From: w.now()}
	w.tell(e)
	value, err := x.Add(w.ctx, 1)
	if err != nil {
		w.failed(e, err)
		if errors.Is(err, zkrecipes.ErrUncertain) {
			w.tell(judge.Event{Kind: judge.Doubted, Key: counterKey})
		}
		return
	}
	e.Kind, e.Token = judge.Granted, value
	w.tell(e)
	w.tell(judge.Event{
		Kind: judge.Committed, Key: counterKey, From: e.From, Token: value, Zxid: value, Was: int32(value) - 1, Version: int32(value),
	})
	w.sleep(w.ctx, 0, 200*time.Millisecond)
}

// watch reports each value of the counter that it sees.
func (w *worker) watch(c *zkrecipes.Client) {
	e := judge.Event{Kind: judge.Observing, Recipe: judge.RecipeCounter, Key: counterKey}
	w.tell(e)
	for n, err := range c.Watch(w.ctx, counterKey) {
		if err != nil {
			w.check(counterKey, err)
			return
		}
		e.Kind, e.Token = judge.Observed, parseCount(n.Data)
		w.tell(e)
	}
}
