package queue

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A consumer that takes again right after its acks saves a round trip: its acks read ahead
// what the next take needs, or take its place in the line along. A place without a taker
// holds others up. So right after means within the time that the ack took, and it is the
// ack of the last item that the Client had.

// lookAhead is what the next taker will read, requested together with an ack. Its listing
// is a watch: so nothing has changed in the queue while that has not fired.
type lookAhead struct {
	s    *session.Session
	line *zkconn.Reading
	at   time.Time
}

// soon bounds how soon after an ack a taker comes whose Client takes again and again, and
// for how long what was read ahead is used.
const Soon = 10 * time.Millisecond

// noteAck notes that an ack has ended, after which a taker may come.
func (q *Queue) noteAck(took time.Duration) {
	pools := PoolsOf(q.Client)
	pools.Mu.Lock()
	defer pools.Mu.Unlock()
	if t := pools.All[q.Path]; t != nil {
		t.acked, t.tookAck = time.Now(), min(took, Soon)
	}
}

// noteTaker notes that a taker has come. takerPools.mu must be held.
func (t *takerPool) noteTaker() {
	if !t.acked.IsZero() {
		t.Soon, t.acked = time.Since(t.acked) <= t.tookAck, time.Time{}
	}
}

// takesSoon reports whether a taker is likely to come right after the ack of the Client's
// last item in the session, and for how long its place is to wait for it.
func (q *Queue) takesSoon(queue *queueState) (keep time.Duration, ok bool) {
	if queue.Held.Load() > 1 {
		return 0, false
	}
	pools := PoolsOf(q.Client)
	pools.Mu.Lock()
	defer pools.Mu.Unlock()
	t := pools.All[q.Path]
	if t == nil || !t.Soon || t.atWork || len(t.waiting) > 0 {
		return 0, false
	}
	return max(time.Millisecond, 2*t.tookAck), true
}

// lookAhead begins to read what the next taker will need, behind an ack that was sent in
// the session, if that is likely to come soon and to be alone. inLine: the ack takes a
// place along.
func (q *Queue) lookAhead(s *session.Session, inLine bool) {
	queue := QueueIn(s, q.Abs())
	if queue.Hints.areOthers() || !queue.Hints.plenty.Load() {
		return
	}
	if _, ok := q.takesSoon(queue); !ok {
		return
	}
	var line *zkconn.Reading
	if !inLine {
		line, _ = s.StartGet(q.consumers.Abs())
	}
	queue.StartFirst()
	pools := PoolsOf(q.Client)
	pools.Mu.Lock()
	defer pools.Mu.Unlock()
	if t := pools.All[q.Path]; t != nil {
		t.ahead = &lookAhead{s, line, time.Now()}
	}
}

// takeAhead returns what was read ahead in the session, nil if nothing was.
func (t *takerPool) takeAhead(s *session.Session) *lookAhead {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	ahead := t.ahead
	t.ahead = nil
	if ahead == nil || ahead.s != s || time.Since(ahead.at) > Soon {
		return nil
	}
	return ahead
}
