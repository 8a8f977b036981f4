package judge

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// RecipePut and RecipeTake are the Recipes of a queue's calls. The Key of a put is the
// queue's followed by PutSuffix, since producers and consumers are served separately.
const (
	RecipePut  = "put"
	RecipeTake = "take"
	PutSuffix  = "/put"
)

// queues judges that no item is lost, and that no ack takes effect twice.
type queues struct {
	j        *Judge
	items    map[string]*item    // that are not finished
	finished map[string]finish   // were put and acked, once
	free     map[string]int      // how many items can be taken, by queue
	letters  map[string]*letters // by queue
}

// item is an item from its put on, until its ack is seen.
type item struct {
	queue    string
	put      outcome
	acks     []int64       // the tokens of claims whose acks succeeded
	effect   bool          // of an ack was seen
	token    int64         // of that ack
	touched  time.Duration // when it was put, acked, or the effect seen, the last time
	hands    caller        // the one that works on it
	attempts []Event
}

// free reports whether a consumer can take the item.
func (it *item) free() bool {
	return it.put == yes && len(it.acks) == 0 && !it.effect && it.hands == caller{}
}

// finish is the end of an item.
type finish struct {
	queue string
	at    time.Duration
	token int64 // of the ack
}

type outcome int8

const (
	maybe outcome = iota
	yes
	no
)

func newQueues(j *Judge) queues {
	return queues{j: j, items: map[string]*item{}, finished: map[string]finish{}, free: map[string]int{}, letters: map[string]*letters{}}
}

func (q *queues) take(e Event) {
	switch {
	case e.Kind.isGone():
		for _, it := range q.items {
			if it.hands.process == e.Process {
				q.change(it, e.At, func() { it.hands = caller{} })
			}
		}
	case e.Kind == Redriven:
		q.redriven(e)
	case e.Item == "":
	case e.Recipe == RecipePut && e.Kind == Begin:
		q.items[e.Item] = &item{queue: strings.TrimSuffix(e.Key, PutSuffix)}
	default:
		q.takeItem(e)
	}
}

func (q *queues) takeItem(e Event) {
	it := q.items[e.Item]
	if f, finished := q.finished[e.Item]; finished {
		switch {
		case e.Kind == Effect:
			q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s was acked twice", e.Item)
		case e.Kind == Acked:
			q.judgeAcks(e, []int64{e.Token}, f.token)
		}
		return // the reports of a consumer may come later than the effect
	}
	if it == nil {
		q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s was never put: %s", e.Item, e.Kind)
		return
	}
	if e.Kind == Effect && it.effect {
		q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s was acked twice", e.Item)
	}
	q.change(it, e.At, func() { q.apply(it, e) })
	if it.put == no && (it.effect || len(it.acks) > 0) {
		q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s: its put failed, and it was acked", e.Item)
	}
	if it.effect && (e.Kind == Acked || e.Kind == Effect) {
		q.judgeAcks(e, it.acks, it.token)
	}
	if it.put == yes && it.effect {
		delete(q.items, e.Item)
		delete(q.j.history, e.Item)
		q.finished[e.Item] = finish{it.queue, it.touched, it.token}
	}
}

// judgeAcks judges that the acks that succeeded are the one that took effect.
func (q *queues) judgeAcks(e Event, acks []int64, effect int64) {
	for _, token := range acks {
		if token != effect {
			q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s: the ack of the claim with token %d succeeded, and that with token %d took effect",
				e.Item, token, effect)
		}
	}
}

func (q *queues) apply(it *item, e Event) {
	switch {
	case e.Recipe == RecipePut && e.Kind == Granted:
		it.put, it.touched = yes, e.At
	case e.Recipe == RecipePut && e.Kind == Failed && !e.Uncertain:
		it.put = no
	case e.Recipe == RecipeTake && e.Kind == Granted:
		it.hands = e.caller()
		if l := q.lettersOf(e.Key); l != nil {
			l.delivered(q, it, e)
		} else {
			q.compare(it, e)
		}
		it.attempts = append(it.attempts, e)
	case e.Kind == Held:
		if it.hands == e.caller() {
			it.hands = caller{}
		}
	case e.Kind == Acked:
		it.acks, it.touched = append(it.acks, e.Token), e.At
	case e.Kind == Effect:
		it.effect, it.token, it.touched = true, e.Token, e.At
	}
}

// compare judges that tokens grow with the attempts.
func (q *queues) compare(it *item, e Event) {
	for _, other := range it.attempts {
		if other.Attempt == e.Attempt || (other.Attempt < e.Attempt) != (other.Token < e.Token) {
			q.j.violation(e.At, "queue", []string{e.Item, e.Key}, "item %s: attempt %d has token %d, and attempt %d token %d",
				e.Item, other.Attempt, other.Token, e.Attempt, e.Token)
		}
	}
}

// change changes an item, and lets the consumers wait for as long as no item is free.
func (q *queues) change(it *item, at time.Duration, f func()) {
	before := it.free()
	f()
	if it.free() == before {
		return
	}
	if before {
		q.free[it.queue]--
	} else {
		q.free[it.queue]++
	}
	none := q.free[it.queue] == 0
	q.j.served.update(Event{Recipe: RecipeTake, Key: it.queue, At: at}, func(c *contest) { c.shut = none })
}

// Drained judges the queues after everything was taken.
func (j *Judge) Drained(at time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(j.queues.items)) {
		switch it := j.queues.items[name]; {
		case it.put == yes:
			j.violation(at, "queue", []string{name, it.queue}, "item %s is lost: it was put, and its ack was never seen", name)
		case len(it.acks) > 0 && !it.effect:
			j.violation(at, "queue", []string{name, it.queue}, "item %s was acked, and its ack was never seen", name)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(j.queues.letters)) {
		j.queues.letters[queue].drained(j, at)
	}
}
