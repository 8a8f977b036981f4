package judge

import (
	"cmp"
	"slices"
	"time"
)

// RecipeRedrive is the Recipe of the calls that move dead letters back. Their Key is the
// queue's followed by RedriveSuffix.
const (
	RecipeRedrive = "redrive"
	// NoLetters is the Err of a Failed call that found nothing to move: it was answered.
	NoLetters     = "no dead letters"
	RedriveSuffix = "/redrive"
)

// DeadLetters says where a queue's items go that fail for too often.
type DeadLetters struct {
	Key      string // the queue of the dead letters
	Attempts int    // how often an item may be taken
}

// letters judges the dead letters of one queue: an item becomes one when it has been taken
// as often as it may be, and only a redrive brings it back. That no item is lost and none
// is there twice is judged as for all items.
type letters struct {
	DeadLetters
	redriven int
	doubtful int            // that may have been redriven
	lives    map[string]int // by queue: how often items began anew
}

// lettersOf returns the dead letters of a queue, or those that are in the queue; nil: none.
func (q *queues) lettersOf(key string) *letters {
	for queue, d := range q.j.cfg.Queues {
		if key != queue && key != d.Key {
			continue
		}
		return of(q.letters, queue, func() *letters { return &letters{DeadLetters: d, lives: map[string]int{}} })
	}
	return nil
}

func (q *queues) redriven(e Event) {
	l := q.lettersOf(e.Key)
	l.redriven += e.Moved
	if e.Uncertain {
		l.doubtful++
	}
}

// delivered judges the number of an attempt, before it is added to the item's.
func (l *letters) delivered(q *queues, it *item, e Event) {
	switch {
	case e.Key == l.Key && e.Failures < l.Attempts:
		q.j.violation(e.At, "letters", []string{e.Item, e.Key}, "item %s is a dead letter after %d attempts of %d", e.Item, e.Failures, l.Attempts)
	case e.Key != l.Key && e.Attempt > l.Attempts:
		q.j.violation(e.At, "letters", []string{e.Item, e.Key}, "item %s was handed out for attempt %d of %d", e.Item, e.Attempt, l.Attempts)
	}
	l.lives[e.Key] += restarts(append(slices.Clone(it.attempts), e), e.Key) - restarts(it.attempts, e.Key)
}

// restarts returns how often the attempts of an item in a queue began anew.
func restarts(attempts []Event, key string) (n int) {
	attempts = slices.Clone(attempts)
	slices.SortFunc(attempts, func(a, b Event) int { return cmp.Compare(a.Token, b.Token) })
	last := 0
	for _, e := range attempts {
		if e.Key != key {
			continue
		}
		if e.Attempt <= last {
			n++
		}
		last = e.Attempt
	}
	return n
}

// drained judges at the end that no item began anew without a redrive.
func (l *letters) drained(j *Judge, at time.Duration) {
	for key, n := range l.lives {
		if n > l.redriven+l.doubtful {
			j.violation(at, "letters", []string{key}, "%s: items began anew %d times, and only %d dead letters were redriven (%d in doubt)",
				key, n, l.redriven, l.doubtful)
		}
	}
}
