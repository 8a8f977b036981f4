package sim

import (
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes"
)

// judge holds what callers were told against what the server has applied. Nobody
// calls any more, and all items were taken.
func (w *queueWorld) checkCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	by := map[string][]*item{}
	for _, it := range w.observer.queue.items {
		by[it.data] = append(by[it.data], it)
	}
	for _, a := range w.puts {
		w.checkPut(a, by)
	}
	if len(by) > 0 {
		w.log.violation("items that nobody has put: %v", by)
	}
	for _, it := range w.observer.queue.items {
		w.checkItem(it)
	}
	for _, d := range w.deliveries {
		w.checkDelivery(d)
	}
}

// judgePut: what was put is there once, next to each other and in order; what was
// not is not; and what may have been is at most once.
func (w *queueWorld) checkPut(a *putCall, by map[string][]*item) {
	var there []*item
	for _, data := range a.data {
		there = append(there, by[data]...)
		delete(by, data)
	}
	doubt := errors.Is(a.err, zkrecipes.ErrUncertain)
	if doubt && len(there) > 0 {
		w.events.add("put in doubt, and there")
	}
	switch n := len(there); {
	case a.err != nil && !doubt && n == 0 && len(a.ids) == 0, doubt && n == 0 && len(a.ids) == len(a.data):
		return
	case a.err != nil && !doubt, n != len(a.data), len(a.ids) != n:
		w.log.violation("put %q: %v %v, and there were %d", a.data, a.ids, a.err, n)
		return
	}
	first := slices.Index(w.observer.queue.items, there[0])
	for i, it := range there {
		if it.id != string(a.ids[i]) || it.data != a.data[i] || it != w.observer.queue.items[first+i] || it.createdZxid != there[0].createdZxid {
			w.log.violation("put %q as %v: not what there was", a.data, a.ids)
		}
		if it.createdAt < a.called || it.createdAt > a.ret && !doubt {
			w.log.violation("put %q between %d and %d: there since %d", a.data, a.called, a.ret, it.createdAt)
		}
	}
}

// judgeItem: each item was acked by who had it, or has become a dead letter that
// nobody had.
func (w *queueWorld) checkItem(it *item) {
	switch {
	case it.deletedWithQueue:
	case it.deletedZxid == 0:
		w.log.violation("item %s is left", it.id)
	case it.deletedBy == nil: // said before
	case it.movedToDead && it.deletedBy.delivery != nil:
		w.log.violation("dead letter %s was handed to %s", it.id, it.deletedBy.delivery.client)
	case !it.movedToDead && it.deletedBy.delivery == nil:
		w.log.violation("item %s is gone, and who claimed it last was not handed it", it.id)
	}
}

// judgeDelivery: an ack was done where it says so, and was not where it says that.
func (w *queueWorld) checkDelivery(d *delivery) {
	cl := d.claim
	if cl == nil {
		return
	}
	acked := cl.item.deletedBy == cl
	may, must, effect := d.handled, false, false
	for _, a := range d.acks {
		switch {
		case a.err == nil:
			// A mere ack whose reply was lost, and its claim to an operator, is at
			// worst a delivery more.
			may, must = true, must || a.effect || !w.observer.operatorDeletedClaim(cl)
			effect = effect || a.effect
		case errors.Is(a.err, zkrecipes.ErrUncertain):
			may = true
		case errors.Is(a.err, zkrecipes.ErrReleased):
			must = must || !d.nacked && !d.handled && !w.observer.operatorDeletedClaim(cl)
		}
	}
	switch {
	case acked && !may:
		w.log.violation("%s under 0x%x is gone, and nobody was told: %v", d.ID, int64(d.token), d.acks)
	case must && !acked:
		w.log.violation("%s under 0x%x is not acked: %v", d.ID, int64(d.token), d.acks)
	case effect && cl.item.effects != 1:
		w.log.violation("%s under 0x%x is acked, without what was to be done with it: %v", d.ID, int64(d.token), d.acks)
	}
}
