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
	l := w.processes[0].current()
	q := zkrecipes.NewQueue(l.c, w.path, &zkrecipes.QueueOptions{MaxAttempts: -1})
	w.drain(ctx, q, l, w.observer.queue)
	w.finalItems(ctx, q, l)
	w.drain(ctx, q.DeadLetters(), l, w.observer.deadLetters)
	w.drain(ctx, w.next(l.c), l, w.observer.next)
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
		p.current().c.Close()
	}
	for _, q := range w.observer.all() {
		w.checkEmpty(q.path + "/puts")
	}
}

// drain takes all items, and checks that they come in the order in which they were
// put, once nobody else has taken any for a while.
func (w *queueWorld) drain(ctx context.Context, q *zkrecipes.Queue, l life, from *observedQueue) {
	time.Sleep(10 * time.Second)
	n := 0
	for ; w.observer.remaining(from) > 0; n++ {
		it, err := q.Take(ctx)
		if err != nil {
			w.log.violation("at rest: %v\n%s", err, w.srv.Tree())
			return
		}
		d := w.received(it, from, l)
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
func (w *queueWorld) finalItems(ctx context.Context, q *zkrecipes.Queue, l life) {
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
		d := w.received(it, w.observer.queue, l)
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

// checkCalls compares the results of the calls with the server's changes, once all
// calls have returned and all items are gone.
func (w *queueWorld) checkCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	by := map[string][]*item{}
	for _, it := range w.observer.queue.items {
		if !it.redriven {
			by[it.data] = append(by[it.data], it)
		}
	}
	for _, a := range w.puts {
		w.checkPut(a, by)
	}
	if len(by) > 0 {
		w.log.violation("items that no call has put: %v", by)
	}
	for _, q := range w.observer.all() {
		for _, it := range q.items {
			w.checkItem(it)
		}
	}
	w.checkRemovals()
	for _, d := range w.deliveries {
		w.checkDelivery(d)
	}
}

// checkPut checks that the items of a Put or PutAll that succeeded were created once,
// next to each other and in order, those of one that failed never, and those of an
// uncertain one at most once.
func (w *queueWorld) checkPut(a *putCall, by map[string][]*item) {
	var there []*item
	for _, data := range a.data {
		there = append(there, by[data]...)
		delete(by, data)
	}
	uncertain := errors.Is(a.err, zkrecipes.ErrUncertain)
	if uncertain && len(there) > 0 {
		w.events.add("put uncertain, but done")
	}
	switch n := len(there); {
	case a.err != nil && !uncertain && n == 0 && len(a.ids) == 0, uncertain && n == 0 && len(a.ids) == len(a.data):
		return
	case a.err != nil && !uncertain, n != len(a.data), len(a.ids) != n:
		w.log.violation("put %q: %v %v, and the server created %d", a.data, a.ids, a.err, n)
		return
	}
	first := slices.Index(w.observer.queue.items, there[0])
	for i, it := range there {
		if it.id != string(a.ids[i]) || it.data != a.data[i] || it != w.observer.queue.items[first+i] || it.createdZxid != there[0].createdZxid {
			w.log.violation("put %q: the server did not create them as %v", a.data, a.ids)
		}
		if it.createdAt < a.called || it.createdAt > a.ret && !uncertain {
			w.log.violation("put %q between %d and %d: created at %d", a.data, a.called, a.ret, it.createdAt)
		}
	}
}

// checkItem checks that an item was deleted by the consumer that had it, or moved to
// the dead letters while no consumer had it.
func (w *queueWorld) checkItem(it *item) {
	switch {
	case it.deletedByOperator, it.removed, it.buried:
	case it.deletedZxid == 0:
		w.log.violation("item %s is left", it.id)
	case it.deletedBy == nil: // itemDeleted has reported it
	case it.movedToDead && it.deletedBy.delivery != nil && !it.deletedBy.delivery.served:
		w.log.violation("dead letter %s was delivered to %s", it.id, it.deletedBy.delivery.identity())
	case !it.movedToDead && it.deletedBy.delivery == nil:
		w.log.violation("item %s is gone, and its last claim was never delivered", it.id)
	}
}

// checkDelivery checks the results of the calls of Ack: the item was acked if Ack
// returned that it was, and was not if Ack returned that it was not.
func (w *queueWorld) checkDelivery(d *delivery) {
	cl := d.claim
	if cl == nil {
		return
	}
	acked := cl.item.deletedBy == cl && !cl.item.movedToDead && !cl.item.buried
	may, must, effect, moves := d.handled, false, false, false
	mayMove := false
	for _, a := range d.acks {
		switch {
		case a.err == nil:
			// If the reply to an Ack without operations is lost, and the operator has
			// deleted the claim, the worst is one more delivery.
			may, must = true, must || a.effect || a.moves || !w.observer.mayBeGone(cl)
			effect, moves, mayMove = effect || a.effect, moves || a.moves, mayMove || a.moves
		case errors.Is(a.err, zkrecipes.ErrUncertain):
			may, mayMove = true, mayMove || a.moves
		case errors.Is(a.err, zkrecipes.ErrReleased):
			must = must || !d.nacked && !d.handled && !w.observer.mayBeGone(cl)
		}
	}
	switch {
	case acked && !may:
		w.log.violation("%s under 0x%x is acked, and no call may have done it: %v", d.ID, int64(d.token), d.acks)
	case must && !acked:
		w.log.violation("%s under 0x%x is not acked: %v", d.ID, int64(d.token), d.acks)
	case moves && cl.item.movedOn != 1, acked && !mayMove && cl.item.movedOn > 0:
		w.log.violation("%s under 0x%x was moved on %d times: %v", d.ID, int64(d.token), cl.item.movedOn, d.acks)
	case effect && cl.item.effects != 1:
		w.log.violation("%s under 0x%x is acked, without the operations of the Ack: %v", d.ID, int64(d.token), d.acks)
	}
}
