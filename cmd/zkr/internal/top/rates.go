//go:build unix

// Package top is a live view of recipes in a terminal.
package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// row is a line of the table.
type row struct {
	zkrecipes.Usage
	rate float64 // see rates
}

// holdsSince is zero for what is held for long as a rule.
func (r row) holdsSince() (none time.Time) {
	switch r.Recipe {
	case zkrecipes.RecipeGroup, zkrecipes.RecipeElection, zkrecipes.RecipeShards:
		return none
	}
	return r.HeldSince
}

// rates compares each look with the one before. The rate of a queue is by how many items it
// grows in a second. That of others is how many changes of the oldest holder were seen, at
// most one for each look.
type rates struct {
	at   time.Time
	last map[string]zkrecipes.Usage
}

// rows returns a look as rows.
func (r *rates) rows(at time.Time, usages []zkrecipes.Usage) (rows []row) {
	seconds := at.Sub(r.at).Seconds()
	next := map[string]zkrecipes.Usage{}
	for _, u := range usages {
		rate := 0.0
		if before, ok := r.last[u.Path]; ok && before.Recipe == u.Recipe && seconds > 0 {
			rate = change(before, u) / seconds
		}
		next[u.Path] = u
		rows = append(rows, row{u, rate})
	}
	r.at, r.last = at, next
	return rows
}

func change(before, now zkrecipes.Usage) float64 {
	switch {
	case now.Recipe == zkrecipes.RecipeQueue:
		return float64(now.Len - before.Len)
	case !now.HeldSince.IsZero() && !now.HeldSince.Equal(before.HeldSince):
		return 1
	}
	return 0
}

// order is by what the rows are sorted.
type order int

const (
	byHeld    order = iota // the oldest hold first
	byWaiting              // the longest wait first
	byItems                // the most items first
	byPath
	orders
)

func (o order) String() string { return [...]string{"HELD", "WAITING", "ITEMS", "PATH"}[o] }

func sortRows(rows []row, by order) {
	slices.SortStableFunc(rows, func(a, b row) int {
		c := 0
		switch by {
		case byHeld:
			c = orNever(a.holdsSince()).Compare(orNever(b.holdsSince()))
		case byWaiting:
			c = orNever(a.WaitingSince).Compare(orNever(b.WaitingSince))
		case byItems:
			c = cmp.Compare(b.Len, a.Len)
		}
		return cmp.Or(c, cmp.Compare(a.Path, b.Path))
	})
}

// orNever returns the time to sort by, which for none is after all others.
func orNever(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return t
}

// joins counts the joins of one line by the numbers of its places, which are counted by the
// servers. A line that is empty at a look shows them at the next one.
type joins struct {
	path  string
	first int64 // the highest number at the first look
	last  int64
	since time.Time
}

// perSecond returns the rate of joins since the first look at the line, and whether it is known.
func (j *joins) perSecond(at time.Time, l view.Line) (rate float64, known bool) {
	highest := int64(-1)
	for _, p := range l.Places {
		highest = max(highest, p.Number())
	}
	switch {
	case highest < 0:
	case j.path != l.Path || highest < j.last: // another line
		*j = joins{l.Path, highest, highest, at}
	default:
		j.last = highest
	}
	seconds := at.Sub(j.since).Seconds()
	if j.path != l.Path || seconds <= 0 {
		return 0, false
	}
	return float64(j.last-j.first) / seconds, true
}
