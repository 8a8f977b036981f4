package main

import (
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// join is a member of the group for a while, mostly with a name of its own. A member that has
// left must not be in the way of the next one of that name.
func (w *worker) join(g *zkrecipes.Group) {
	e := judge.Event{Kind: judge.Begin, Recipe: judge.RecipeGroup, Key: groupKey}
	w.tell(e)
	var opts []zkrecipes.JoinOption
	if w.oneIn(2) {
		opts = append(opts, zkrecipes.MemberID(fmt.Sprint("member-", w.Process)))
	}
	m, err := g.Join(w.ctx, nil, opts...)
	if err != nil {
		w.failed(e, err)
		return
	}
	e.Kind = judge.Granted
	w.tell(e)
	w.sleep(w.ctx, 0, 100*time.Millisecond)
	w.check(groupKey, m.Leave())
	w.sleep(w.ctx, 0, 100*time.Millisecond)
}
