package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// campaign leads for a while, by Campaign or by Lead. Lead may call its function more than
// once.
func (w *worker) campaign(e *zkrecipes.Election) {
	event := judge.Event{Recipe: judge.RecipeElection, Key: electionKey, Holder: fmt.Sprintf("%d.%d/%s", w.Process, w.Life, w.name)}
	value := []byte(event.Holder)
	if w.oneIn(3) {
		event.Kind = judge.Begin
		w.tell(event)
		err := e.Lead(w.ctx, value, func(ctx context.Context, t *zkrecipes.Term) error {
			w.lead(ctx, t, event).over()
			return nil
		})
		if err != nil {
			w.failed(event, err)
		}
	} else {
		t := acquire(w.ctx, w, func(ctx context.Context) (*zkrecipes.Term, error) { return e.Campaign(ctx, value) }, event)
		if t == nil {
			return
		}
		h := w.lead(w.ctx, t, event)
		w.check(electionKey, t.Resign())
		h.over()
	}
	w.sleep(w.ctx, 0, restMost)
}

// lead is what a leader does: it writes in a fenced transaction, and sometimes proclaims.
func (w *worker) lead(ctx context.Context, t *zkrecipes.Term, e judge.Event) *hold {
	h := w.granted(t, e)
	h.work(ctx)
	w.commit(t, electionKey)
	if w.oneIn(3) {
		w.check(electionKey, t.Proclaim(w.ctx, []byte(e.Holder+" proclaims")))
	}
	h.believe()
	return h
}

// observe reports each leader that it sees.
func (w *worker) observe(e *zkrecipes.Election) {
	w.tell(judge.Event{Kind: judge.Observing, Recipe: judge.RecipeElection, Key: electionKey})
	for l, err := range e.Observe(w.ctx) {
		if err != nil {
			w.check(electionKey, err)
			return
		}
		holder, _, _ := strings.Cut(string(l.Value), " ")
		w.tell(judge.Event{Kind: judge.Observed, Recipe: judge.RecipeElection, Key: electionKey, Token: int64(l.Token), Holder: holder})
	}
}
