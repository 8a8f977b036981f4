package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// RecipeElection is the Recipe of an election. RecipeCounter is that of a counter to which each call
// adds 1: its values are judged as the tokens of leaders are, and those who watch it as observers.
const (
	RecipeElection = "election"
	RecipeCounter  = "counter"
)

// election judges what observers see. That there is one leader at a time is judged as for a
// lock: by the holds (exclusion) and by the fenced transactions (fence).
type election struct {
	recipe    string
	key       string
	terms     []term // by token; the last ones
	observers map[caller]int64
}

// term is what is known of a leader, from itself or from an observer.
type term struct {
	token   int64
	holder  string
	granted time.Duration // 0: it has not reported its election
	known   time.Duration // when it or an observer did
}

func (j *Judge) takeElection(e Event) {
	switch {
	case e.Kind.isGone():
		for _, el := range j.elections {
			maps.DeleteFunc(el.observers, func(who caller, _ int64) bool { return who.process == e.Process })
		}
		return
	case e.Recipe != RecipeElection && e.Recipe != RecipeCounter:
		return
	}
	of(j.elections, e.Key, func() *election {
		return &election{recipe: e.Recipe, key: e.Key, observers: map[caller]int64{}}
	}).take(j, e)
}

func (el *election) take(j *Judge, e Event) {
	switch e.Kind {
	case Observing:
		el.observers[e.caller()] = 0
	case Granted:
		el.know(j, e).granted = e.At
	case Observed:
		if e.Token == 0 {
			return
		}
		if last := el.observers[e.caller()]; e.Token < last {
			j.violation(e.At, el.recipe, []string{el.key}, "%s: %v saw token %d after token %d",
				el.key, e.caller(), e.Token, last)
		}
		el.observers[e.caller()] = e.Token
		el.know(j, e)
	}
}

// know returns the term of an event, and judges that each has one leader.
func (el *election) know(j *Judge, e Event) *term {
	el.terms = keep(el.terms)
	i, found := slices.BinarySearchFunc(el.terms, e.Token, func(t term, token int64) int { return cmp.Compare(t.token, token) })
	if !found {
		el.terms = slices.Insert(el.terms, i, term{token: e.Token, holder: e.Holder, known: e.At})
	}
	if t := el.terms[i]; t.holder != e.Holder {
		j.violation(e.At, el.recipe, []string{el.key}, "%s: token %d is that of %q and of %q", el.key, e.Token, t.holder, e.Holder)
	}
	return &el.terms[i]
}

// Observers judges that each observer has seen the newest leader, or a later one, unless that
// was elected only just now. at must be a moment at which there are no faults.
func (j *Judge) Observers(at time.Duration) {
	if at-j.served.lastWrite > outageFrom {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(j.elections)) {
		el := j.elections[key]
		newest := int64(0)
		for _, t := range el.terms {
			if t.granted != 0 && t.granted < at-j.Bound() {
				newest = t.token
			}
		}
		for _, who := range callers(el.observers) {
			if seen := el.observers[who]; seen < newest {
				j.violation(at, el.recipe, []string{key}, "%s: %v has seen nothing after token %d, and %d was granted more than %v ago",
					key, who, seen, newest, j.Bound())
			}
		}
	}
}
