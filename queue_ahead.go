package zkrecipes

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A consumer that takes again right after its acks saves a round trip: its acks read ahead
// what the next take needs, or take its place in the line along.

// lookAhead is what the next taker will read, requested together with an ack. Its listing
// is a watch: so nothing has changed in the queue while that has not fired.
type lookAhead struct {
	s    *session
	line *zkconn.Reading // the consumers' line; nil: not read
}

// soon is how soon after an ack a taker comes whose Client takes again and again.
const soon = 10 * time.Millisecond

// takesSoon reports whether the Client's takers come right after acks, of late, and none
// is there now.
func (q *Queue) takesSoon() bool {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	t := q.c.turns[q.path]
	return t != nil && t.soon && !t.atWork && len(t.waiting) == 0
}

// noteAck notes that an ack has ended, after which a taker may come.
func (q *Queue) noteAck() {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if t := q.c.turns[q.path]; t != nil {
		t.acked = time.Now()
	}
}

// lookAhead begins to read what the next taker will need, behind an ack that was sent in
// the session, if that is likely to come soon and to be alone. inLine: the ack takes a
// place along.
func (q *Queue) lookAhead(s *session, inLine bool) {
	queue := s.queue(q.abs())
	if queue.turns.queued.Load() || !queue.turns.plenty.Load() || !q.takesSoon() {
		return
	}
	var line *zkconn.Reading
	if !inLine {
		line, _ = s.StartGet(q.consumers.abs())
	}
	queue.StartFirst()
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if t := q.c.turns[q.path]; t != nil {
		t.ahead = &lookAhead{s, line}
	}
}

// takeAhead returns what was read ahead in the session, nil if nothing was.
func (t *turns) takeAhead(s *session) *lookAhead {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	ahead := t.ahead
	t.ahead = nil
	if ahead == nil || ahead.s != s {
		return nil
	}
	return ahead
}
