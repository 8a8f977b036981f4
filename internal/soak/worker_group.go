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
	var opts []zkrecipes.JoinOption
	if w.oneIn(2) {
		opts = append(opts, zkrecipes.MemberID(fmt.Sprint("member-", w.Process)))
	}
	var m *zkrecipes.Membership
	if !w.attempt(judge.Event{Recipe: "group", Key: groupKey}, func(*judge.Event) (err error) {
		m, err = g.Join(w.ctx, nil, opts...)
		return err
	}) {
		return
	}
	w.sleep(w.ctx, 0, 100*time.Millisecond)
	w.check(groupKey, m.Leave())
	w.sleep(w.ctx, 0, 100*time.Millisecond)
}
