package costs

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// leads returns the term of a leader in c, and its election.
func (w *world) leads(c *zkrecipes.Client) (*zkrecipes.Term, *zkrecipes.Election) {
	e := w.election(c)
	w.ok(recipetest.Campaigns(w.t, e, "a").Resign())
	return recipetest.Campaigns(w.t, e, "a"), e
}

// observed has n clients observe the election.
func (w *world) observed(n int) {
	for range n {
		recipetest.Follow(w.t, w.election(w.client()))
	}
}

var electionRows = []row{
	{"Campaign and Resign, free", func(w *world) func() {
		term, e := w.leads(w.c)
		w.ok(term.Resign())
		return func() { w.ok(recipetest.Campaigns(w.t, e, "a").Resign()) }
	}},
	{"Campaign with a leader", func(w *world) func() {
		w.leads(w.other)
		e := w.election(w.c)
		return func() { recipetest.CampaignLater(w.t, e, "b") }
	}},
	{"Resign with one candidate, which leads", func(w *world) func() {
		term, _ := w.leads(w.other)
		a := recipetest.CampaignLater(w.t, w.election(w.c), "b")
		return func() { w.ok(term.Resign()); a.Get() }
	}},
	{"Resign with 20 candidates, one of which leads", func(w *world) func() {
		term, _ := w.leads(w.other)
		a := recipetest.CampaignLater(w.t, w.election(w.c), "b")
		for range 19 {
			recipetest.CampaignLater(w.t, w.election(w.client()), "c")
		}
		return func() { w.ok(term.Resign()); a.Get() }
	}},
	{"Proclaim", func(w *world) func() {
		term, _ := w.leads(w.c)
		return func() { w.ok(term.Proclaim(w.ctx(), []byte("b"))) }
	}},
	{"a term that lasts: the watches on its znodes", func(w *world) func() {
		w.leads(w.c)
		time.Sleep(3 * line.IdleLine) // the other client's line is idle
		return func() { time.Sleep(settled) }
	}},
	{"... and five Proclaims later", func(w *world) func() {
		term, _ := w.leads(w.c)
		time.Sleep(settled)
		return func() {
			for range 5 { // fires neither watch
				w.ok(term.Proclaim(w.ctx(), nil))
			}
			time.Sleep(settled)
		}
	}},
	{"Leader", func(w *world) func() {
		w.leads(w.other)
		return func() { _, err := w.election(w.c).Leader(w.ctx()); w.ok(err) }
	}},
	{"Observe: to begin, with a leader", func(w *world) func() {
		w.leads(w.other)
		return func() { recipetest.Follow(w.t, w.election(w.c)) }
	}},
	{"Campaign, seen by three observers", func(w *world) func() {
		term, e := w.leads(w.c)
		w.observed(3)
		w.ok(term.Resign())
		return func() { recipetest.Campaigns(w.t, e, "a") }
	}},
	{"Proclaim, seen by three observers", func(w *world) func() {
		term, _ := w.leads(w.c)
		w.observed(3)
		return func() { w.ok(term.Proclaim(w.ctx(), []byte("b"))) }
	}},
	{"Resign, seen by three observers", func(w *world) func() {
		term, _ := w.leads(w.c)
		w.observed(3)
		return func() { w.ok(term.Resign()) }
	}},
	{"Proclaim, seen by three observers of one client", func(w *world) func() {
		term, _ := w.leads(w.c)
		for range 3 {
			recipetest.Follow(w.t, w.election(w.other))
		}
		return func() { w.ok(term.Proclaim(w.ctx(), []byte("b"))) }
	}},
	{"an observer, for a minute", func(w *world) func() {
		w.leads(w.other)
		w.observed(1)
		return w.idle(time.Minute)
	}},
	{"Lead, free", func(w *world) func() {
		term, e := w.leads(w.c)
		w.ok(term.Resign())
		return func() { recipetest.Lead(w.t, e, false) }
	}},
	{"Lead, the second of a process", func(w *world) func() {
		_, e := w.leads(w.other)
		recipetest.Lead(w.t, w.election(w.c), false)
		synctest.Wait()
		e = w.election(w.c)
		return func() {
			ctx, cancel := context.WithTimeout(w.ctx(), time.Millisecond)
			defer cancel()
			err := e.Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return nil })
			require.ErrorIs(w.t, err, context.DeadlineExceeded)
		}
	}},
}
