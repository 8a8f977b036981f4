package sim

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// queueObserver follows what the server applies to a queue, its dead letters and the next
// queue of a pipeline: which items were put, which clients claimed them, and how they
// ended. It uses none of the library's code, and knows only the names on the wire.
type queueObserver struct {
	*waitWorld
	maxAttempts int // negative if there is no limit
	bound       int // maximum of items, 0 if there is none

	mu                       sync.Mutex
	queue, deadLetters, next *observedQueue
	deletingQueue            bool  // the operator is deleting the queue
	queueDeletedAt           int64 // logical time at which that last began or ended
}

func (o *queueObserver) all() []*observedQueue {
	return []*observedQueue{o.queue, o.deadLetters, o.next}
}

// observedQueue is one of them.
type observedQueue struct {
	path       string
	items      []*item // all there ever were, as they were put
	byPath     map[string]*item
	claims     map[string]*claim // by the path of the flag
	size       int               // of the items, those that exist
	sealedZxid int64             // of the last transaction that has sealed a segment
}

type item struct {
	id, data          string
	createdAt         int64 // logical time
	createdZxid       int64
	claims            []*claim
	freeSince         time.Time
	overtakenSince    time.Time // since when later ones are claimed, if that is after freeSince
	deletedZxid       int64     // 0 while it exists
	deletedBy         *claim    // deleted in the same transaction
	movedToDead       bool
	failure           string // of a dead letter
	movedOn           int    // items that an AckPut has put into the next queue with it
	redriven          bool   // moved back from the dead letters
	removed           bool   // without a claim, by Remove, Purge or Redrive
	buried            bool   // by Bury, with or without a claim
	deletedByOperator bool
	notes             int // znodes that the operator has created below it
	notesDeleted      int // they count as attempts
	unseen            int // claims that ended before a consumer got the item: they do not
	effects           int // znodes that an Ack created with it
}

// claim is a claim of an item, which has two znodes: a flag beside the item, and one
// of a fixed name below it.
type claim struct {
	item                    *item
	path                    string // of the flag
	nth                     int    // of the item, from 1
	token                   zkrecipes.Token
	client                  string
	flagExists, claimExists bool // the two znodes
	flagDeletedZxid         int64
	delivery                *delivery // once a consumer has the item
}

func newQueueObserver(w *waitWorld, path string) *queueObserver {
	observe := func(path string) *observedQueue {
		return &observedQueue{path: path, byPath: map[string]*item{}, claims: map[string]*claim{}}
	}
	return &queueObserver{waitWorld: w, queue: observe(path), deadLetters: observe(path + "-dead"), next: observe(path + "-next")}
}

// effects is the parent of the znodes that Acks create with their items.
const effects = "/app/effects"

// onChange follows a change.
func (o *queueObserver) onChange(c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id, ok := strings.CutPrefix(c.Path, effects+"/"); ok && c.Created {
		o.effectCreated(id[:22], c)
	}
	for _, q := range o.all() {
		below, ok := strings.CutPrefix(c.Path, q.path+"/s/")
		if !ok {
			continue
		}
		switch parts := strings.Split(below, "/"); {
		case len(parts) == 1 && !c.Created && !c.Deleted:
			o.events.add("segment sealed")
			if q.sealedZxid == c.Zxid {
				o.events.add("segments filled by one put")
			}
			q.sealedZxid = c.Zxid
		case len(parts) == 2 && isItem(parts[1]) && c.Created:
			o.itemCreated(q, parts[1], c)
		case len(parts) == 2 && isItem(parts[1]) && c.Deleted:
			o.itemDeleted(q, q.byPath[c.Path], c)
		case len(parts) == 2 && isItem(parts[1]):
			q.byPath[c.Path].unseen++
		case len(parts) == 2 && c.Created && strings.HasSuffix(parts[1], ".done"):
			o.itemDone(q, q.byPath[strings.TrimSuffix(c.Path, ".done")], c)
		case len(parts) == 2 && c.Created && strings.Contains(parts[1], "."):
			path, _, _ := strings.Cut(c.Path, ".")
			o.itemClaimed(q, q.byPath[path], c)
		case len(parts) == 2 && c.Deleted && q.claims[c.Path] != nil:
			q.claims[c.Path].update(func(cl *claim) { cl.flagExists, cl.flagDeletedZxid = false, c.Zxid })
		case len(parts) == 3 && parts[2] != "c":
			it := q.byPath[strings.TrimSuffix(c.Path, "/"+parts[2])]
			switch {
			case c.Created:
				it.notes++
			case c.Deleted:
				it.notesDeleted++
			}
		case len(parts) == 3 && c.Created && string(c.Data) == "done": // .done follows
		case len(parts) == 3 && c.Created:
			it := q.byPath[strings.TrimSuffix(c.Path, "/"+parts[2])]
			if n := len(it.claims); n == 0 || it.claims[n-1].token != zkrecipes.Token(c.Zxid<<8) {
				o.log.violation("%s is a claim without a flag", c.Path)
			} else {
				it.claims[n-1].claimExists = true
			}
		case len(parts) == 3 && c.Deleted:
			for _, cl := range q.byPath[strings.TrimSuffix(c.Path, "/"+parts[2])].claims {
				cl.update(func(cl *claim) { cl.claimExists = false })
			}
		}
	}
}

// update changes a claim, and notes since when the item is free.
func (cl *claim) update(f func(*claim)) {
	f(cl)
	if !cl.flagExists && !cl.claimExists {
		cl.item.freeSince = time.Now()
	}
}

func (o *queueObserver) itemCreated(q *observedQueue, name string, c zktest.Change) {
	it := &item{id: name[:22], data: string(c.Data), createdAt: o.log.tick(), createdZxid: c.Zxid, freeSince: time.Now()}
	q.items, q.byPath[c.Path] = append(q.items, it), it
	q.size++
	switch q {
	case o.queue:
		if o.bound > 0 && q.size > o.bound {
			o.log.violation("there are %d items, and may be at most %d", q.size, o.bound)
		}
		o.checkRedriven(it)
		return
	case o.next:
		o.checkMovedOn(it)
		return
	}
	if name[22] == '~' {
		note, data, _ := strings.Cut(it.data, "\n")
		it.data, it.failure = data, note
	}
	for _, dead := range o.queue.items {
		if dead.id == it.id && dead.deletedZxid == c.Zxid && dead.data == it.data && strings.Contains(it.failure, `"text":"buried by `) {
			dead.buried, dead.removed, dead.deletedByOperator = true, false, false
			if o.events.add("buried"); dead.deletedBy != nil {
				o.events.add("buried while a consumer had it")
			}
			return
		}
		if dead.id == it.id && dead.deletedZxid == c.Zxid && dead.deletedBy != nil && dead.data == it.data &&
			o.maxAttempts > 0 && o.mayBeDead(dead, it.failure) {
			dead.movedToDead = true
			o.events.add("dead letter")
			return
		}
	}
	o.log.violation("dead letter %s does not come from the queue", it.id)
}

// isItem reports whether a segment's child is an item. The second form is that of dead
// letters that tell their failure.
func isItem(name string) bool { return len(name) == 32 || len(name) == 33 && name[22] == '~' }

// itemClaimed checks that each item is claimed by one client at a time, and that none stays
// free for long while later ones are claimed.
func (o *queueObserver) itemClaimed(q *observedQueue, it *item, c zktest.Change) {
	if it == nil || it.deletedZxid > 0 {
		o.log.violation("%s claims an item that is gone", c.Path)
		return
	}
	for _, other := range it.claims {
		if (other.flagExists || other.claimExists) && !o.operatorDeletedClaim(other) {
			o.log.violation("%s claims an item that %s has", c.Path, other.client)
		}
	}
	cl := &claim{
		item: it, path: c.Path, nth: len(it.claims) + 1 - it.unseen, token: zkrecipes.Token(c.Zxid << 8), client: string(c.Data), flagExists: true,
	}
	it.claims = append(it.claims, cl)
	q.claims[c.Path] = cl
	if len(it.claims) > 1 {
		o.events.add("delivered again")
	}
	for _, older := range q.items {
		if older == it {
			break
		}
		switch {
		case o.isClaimed(older) || older.deletedZxid > 0 || older.createdAt < o.queueDeletedAt || it.createdAt < o.queueDeletedAt:
		case older.overtakenSince.Before(older.freeSince):
			older.overtakenSince = time.Now()
		case time.Since(older.overtakenSince) > 6*o.timeout:
			o.log.violation("%s was claimed, and %s, which was put earlier, is free and has been overtaken for %v", it.id, older.id, time.Since(older.overtakenSince))
		}
	}
}

func (o *queueObserver) isClaimed(it *item) bool {
	for _, cl := range it.claims {
		if cl.flagExists || cl.claimExists || o.operatorDeletedClaim(cl) {
			return true
		}
	}
	return false
}

// operatorDeletedClaim reports whether the operator has deleted a znode of the claim,
// or is about to. (If only the one below the item is deleted, the claim does not
// exclude a client that has not seen the flag.)
func (o *queueObserver) operatorDeletedClaim(cl *claim) bool {
	item, _, _ := strings.Cut(cl.path, ".")
	return o.hasDeleted(cl.path) || o.hasDeleted(item+"/c")
}

// mayBeGone reports whether a claim may have gone without its consumer: an operator has deleted
// it, or has buried its item.
func (o *queueObserver) mayBeGone(cl *claim) bool {
	return o.operatorDeletedClaim(cl) || cl.item.buried && cl.item.deletedBy == cl
}

// itemDone is for the mark of an item that is done and cannot be deleted.
func (o *queueObserver) itemDone(q *observedQueue, it *item, c zktest.Change) {
	if it == nil || it.notes == 0 {
		o.log.violation("%s marks an item that could have been deleted", c.Path)
		return
	}
	o.itemDeleted(q, it, c)
	o.events.add("item marked as done")
}

// isDone reports whether the item with that path was acked or moved.
func (o *queueObserver) isDone(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	it := o.queue.byPath[path]
	return it != nil && it.deletedZxid > 0
}

func (o *queueObserver) itemDeleted(q *observedQueue, it *item, c zktest.Change) {
	if it.deletedZxid > 0 { // it was done
		return
	}
	it.deletedZxid = c.Zxid
	q.size--
	for _, cl := range it.claims {
		if cl.flagDeletedZxid == c.Zxid {
			it.deletedBy = cl
		}
	}
	if it.deletedBy == nil {
		it.deletedByOperator = q == o.queue && (o.deletingQueue || o.hasDeleted(c.Path))
		if it.removed = !it.deletedByOperator; it.removed {
			o.checkRemoved(it, c)
		}
	}
}

// effectCreated checks that the operations of an Ack are done once, and in the
// transaction that deletes the item.
func (o *queueObserver) effectCreated(id string, c zktest.Change) {
	for _, it := range slices.Backward(o.queue.items) { // the last one, if it was redriven
		if it.id != id {
			continue
		}
		if it.effects++; it.effects > 1 || it.deletedZxid != c.Zxid || it.deletedBy == nil {
			o.log.violation("%s: created %d times, at 0x%x, and its item was acked at 0x%x", c.Path, it.effects, c.Zxid, it.deletedZxid)
		}
		return
	}
	o.log.violation("%s: no such item", c.Path)
}

// delivered notes a delivery, and checks that the consumer's own claim is behind it.
func (o *queueObserver) delivered(q *observedQueue, d *delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var cl *claim
	for _, other := range q.claims {
		if other.token>>8 == d.token>>8 && other.item.id == string(d.ID) {
			cl = other
		}
	}
	switch {
	case cl == nil || cl.client != d.identity() || cl.delivery != nil || string(d.Data) != cl.item.data:
		o.log.violation("%s was delivered %s under 0x%x, which is no claim of its own", d.identity(), d.ID, int64(d.token))
	case d.Attempt < cl.nth || d.Attempt > cl.nth+cl.item.notesDeleted && cl.flagExists && cl.claimExists:
		o.log.violation("%s was delivered %s as attempt %d, which is its %s", d.identity(), d.ID, d.Attempt, strconv.Itoa(cl.nth))
	}
	d.claim = cl
	if cl != nil {
		cl.delivery = d
	}
}

// remaining returns how many items there are.
func (o *queueObserver) remaining(q *observedQueue) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return q.size
}

// setDeletingQueue notes that the operator begins or ends to delete the queue.
func (o *queueObserver) setDeletingQueue(begin bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deletingQueue, o.queueDeletedAt = begin, o.log.tick()
}

// first returns the first item that exists.
func (o *queueObserver) first(q *observedQueue) *item {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(q.items, func(it *item) bool { return it.deletedZxid == 0 })
	return q.items[i]
}

// mayBeDead checks that an item was taken too often: by the consumer that moves it, or by
// the worker of Serve that has it. The letter has to say why that worker failed.
func (o *queueObserver) mayBeDead(it *item, failure string) bool {
	attempts := it.deletedBy.nth + it.notesDeleted
	if o.operatorDeletedClaim(it.deletedBy) { // others may have claimed it too before this one counted
		attempts = len(it.claims) - it.unseen + it.notesDeleted
	}
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
