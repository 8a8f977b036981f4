package sim

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// mayBeDead checks that an item was taken too often: by the consumer that moves it, or by
// the worker of Serve that has it. The letter has to say why that worker failed.
func (o *queueObserver) mayBeDead(it *item, failure string) bool {
	attempts := it.deletedBy.nth + it.notesDeleted
	d := it.deletedBy.delivery
	if d == nil {
		return attempts > o.maxAttempts && strings.Contains(failure, "never acked")
	}
	o.events.add("failed for good")
	return attempts >= o.maxAttempts && d.served && (d.handled || strings.Contains(failure, `"text":"`+d.failed))
}

// serves notes that a worker of Serve handles an item, or how its handler has failed.
func (o *queueObserver) serves(d *delivery, failed string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d.served, d.failed = true, failed
}

// checkRedriven tells an item that a Redrive moves from one that is put. The letter was
// deleted in the same transaction.
func (o *queueObserver) checkRedriven(it *item) {
	for _, letter := range o.deadLetters.items {
		if letter.id != it.id || it.redriven {
			continue
		}
		it.redriven = letter.removed && letter.deletedZxid == it.createdZxid && letter.data == it.data
	}
	if it.redriven {
		o.events.add("redriven")
	}
}

// checkMovedOn checks that an item of the next queue was put in the transaction that acked
// the item that it was made of.
func (o *queueObserver) checkMovedOn(it *item) {
	for _, from := range o.queue.items {
		if it.data == "next:"+from.id && from.deletedZxid == it.createdZxid && from.deletedBy != nil {
			if from.movedOn++; from.movedOn > 1 {
				o.log.violation("%s was moved to the next queue %d times", from.id, from.movedOn)
			}
			o.events.add("moved on")
			return
		}
	}
	o.log.violation("item %s of the next queue, %q, comes from no ack", it.id, it.data)
}

// checkRemoved checks that nobody has an item that is removed without a claim.
func (o *queueObserver) checkRemoved(it *item, c zktest.Change) {
	o.events.add("removed")
	for _, cl := range it.claims {
		if (cl.flagExists || cl.claimExists) && !o.operatorDeletedClaim(cl) {
			o.log.violation("%s was removed while %s had it", c.Path, cl.client)
		}
	}
}
