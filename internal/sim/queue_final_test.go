package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// checkAtRest takes the remaining items, uses the queue once more, deletes the items
// that are done, checks which znodes are left, and lets the judge compare the calls
// with the server's changes.
func (w *queueWorld) checkAtRest() {
	ctx, cancel := context.WithTimeout(w.ctx, 50*w.timeout)
	defer cancel()
	p := w.processes[0]
	c, life := p.current()
	as := identity(p.i, life)
	q := zkrecipes.NewQueue(c, w.path, &zkrecipes.QueueOptions{MaxAttempts: -1})
	w.drain(ctx, q, c, as, w.observer.queue)
	w.finalItems(ctx, q, c, as)
	w.drain(ctx, q.DeadLetters(), c, as, w.observer.deadLetters)
	w.drain(ctx, w.next(c), c, as, w.observer.next)
	w.deleteDone()
	w.expectEmpty(q)
	time.Sleep(w.timeout)
	for _, path := range []string{w.path, w.path + "-dead", w.path + "-next"} {
		segments := w.srv.Children(path + "/s")
		for _, segment := range segments {
			w.checkEmpty(path + "/s/" + segment)
		}
		w.checkEmpty(path + "/line")
		w.checkEmpty(path + "/room")
		if len(segments) != 1 && (path == w.path || len(segments) > 0) {
			w.log.violation("%s: segments left: %v\n%s", path, segments, w.srv.Tree())
		}
	}
	w.checkCalls()
	for _, p := range w.processes {
		p.client().Close()
	}
	for _, q := range w.observer.all() {
		w.checkEmpty(q.path + "/puts")
	}
}

// drain takes all items, and checks that they come in the order in which they were
// put, once nobody else has taken any for a while.
func (w *queueWorld) drain(ctx context.Context, q *zkrecipes.Queue, c *zkrecipes.Client, as string, from *observedQueue) {
	time.Sleep(10 * time.Second)
	n := 0
	for ; w.observer.remaining(from) > 0; n++ {
		it, err := q.Take(ctx)
		if err != nil {
			w.log.violation("at rest: %v\n%s", err, w.srv.Tree())
			return
		}
		d := w.received(it, from, c, as)
		if first := w.observer.first(from); first != d.claim.item {
			w.log.violation("at rest: %s was delivered before %s", it.ID, first.id)
		}
		if err := w.callAck(ctx, d); err != nil {
			w.log.violation("at rest: %v", err)
			return
		}
	}
	if n == 0 && len(w.srv.Children(from.path+"/s")) == 0 { // nobody has used it
		return
	}
	w.expectEmpty(q)
}

// expectEmpty calls Take once more, which also deletes empty segments.
func (w *queueWorld) expectEmpty(q *zkrecipes.Queue) {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	if it, err := q.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		w.log.violation("at rest: took %v, %v from an empty queue", it, err)
	}
}

// finalItems puts items and takes them, and returns the second of them once.
func (w *queueWorld) finalItems(ctx context.Context, q *zkrecipes.Queue, c *zkrecipes.Client, as string) {
	w.observer.mu.Lock()
	w.observer.bound = 0
	w.observer.mu.Unlock()
	a := &putCall{data: []string{"again 1", "again 2", "again 3"}}
	if w.callPut(ctx, q, a); a.err != nil {
		w.log.violation("at rest: %v\n%s", a.err, w.srv.Tree())
		return
	}
	var got []string
	for i := range 4 {
		it, err := q.Take(ctx)
		if err != nil {
			w.log.violation("at rest: %v\n%s", err, w.srv.Tree())
			return
		}
		got = append(got, string(it.Data))
		d := w.received(it, w.observer.queue, c, as)
		if i == 1 {
			err = it.Nack(ctx)
		} else {
			err = w.callAck(ctx, d)
		}
		if err != nil {
			w.log.violation("at rest: %v", err)
		}
	}
	if want := []string{"again 1", "again 2", "again 2", "again 3"}; !slices.Equal(got, want) {
		w.log.violation("at rest: took %q, not %q", got, want)
	}
	w.expectEmpty(q)
}
