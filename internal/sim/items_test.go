package sim

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// items is what the server has applied to a queue and its dead letters: what was
// put, who claimed it, and how it ended. It is the judge's, and knows nothing of
// the library's code but names on the wire.
type items struct {
	*gathering
	maxAttempts int // negative: any number
	bound       int // how many there may be; 0: any number

	mu          sync.Mutex
	queue, dead *shelf
	wiping      bool // the operator is deleting the queue
	wiped       int64
}

// shelf is one queue.
type shelf struct {
	path     string
	order    []*item // as they were put
	at       map[string]*item
	flags    map[string]*claim
	taken    int // of the items, from the first on, all were claimed once
	standing int
}

type item struct {
	id, data string
	came     int64 // the moment
	put      int64 // its zxid
	claims   []*claim
	free     time.Time // since when
	ended    int64     // zxid of its deletion
	by       *claim    // with which it was deleted
	buried   bool
	wiped    bool
	effects  int
}

// claim is one delivery, as the server knows it.
type claim struct {
	of      *item
	path    string // of its flag
	nth     int
	token   zkrecipes.Token
	client  string
	flag, c bool  // stand
	gone    int64 // zxid of the flag's deletion
	told    *delivery
}

func newItems(g *gathering, path string) *items {
	shelf := func(path string) *shelf {
		return &shelf{path: path, at: map[string]*item{}, flags: map[string]*claim{}}
	}
	return &items{gathering: g, queue: shelf(path), dead: shelf(path + "-dead")}
}

const effects = "/app/effects"

// applied is told each change.
func (b *items) applied(c zktest.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := strings.CutPrefix(c.Path, effects+"/"); ok && c.Created {
		b.affected(id[:22], c)
	}
	for _, q := range []*shelf{b.queue, b.dead} {
		below, ok := strings.CutPrefix(c.Path, q.path+"/s/")
		if !ok {
			continue
		}
		switch parts := strings.Split(below, "/"); {
		case len(parts) == 1 && !c.Created && !c.Deleted:
			b.befell.add("segment sealed")
		case len(parts) == 2 && len(parts[1]) == 32 && c.Created:
			b.put(q, parts[1], c)
		case len(parts) == 2 && len(parts[1]) == 32 && c.Deleted:
			b.deleted(q, q.at[c.Path], c)
		case len(parts) == 2 && c.Created:
			path, _, _ := strings.Cut(c.Path, ".")
			b.claimed(q, q.at[path], c)
		case len(parts) == 2 && c.Deleted && q.flags[c.Path] != nil:
			q.flags[c.Path].left(func(cl *claim) { cl.flag, cl.gone = false, c.Zxid })
		case len(parts) == 3 && c.Created:
			it := q.at[strings.TrimSuffix(c.Path, "/"+parts[2])]
			if n := len(it.claims); n == 0 || it.claims[n-1].token != zkrecipes.Token(c.Zxid) {
				b.h.violation("%s is claimed, and has no flag", c.Path)
			} else {
				it.claims[n-1].c = true
			}
		case len(parts) == 3 && c.Deleted:
			for _, cl := range q.at[strings.TrimSuffix(c.Path, "/"+parts[2])].claims {
				cl.left(func(cl *claim) { cl.c = false })
			}
		}
	}
}

func (cl *claim) left(f func(*claim)) {
	f(cl)
	if !cl.flag && !cl.c {
		cl.of.free = time.Now()
	}
}

func (b *items) put(q *shelf, name string, c zktest.Change) {
	it := &item{id: name[:22], data: string(c.Data), came: b.h.now(), put: c.Zxid, free: time.Now()}
	q.order, q.at[c.Path] = append(q.order, it), it
	q.standing++
	if q == b.queue {
		if b.bound > 0 && q.standing > b.bound {
			b.h.violation("there are %d items, and may be %d", q.standing, b.bound)
		}
		return
	}
	for _, dead := range b.queue.order {
		if dead.id == it.id && dead.ended == c.Zxid && dead.by != nil && dead.data == it.data &&
			b.maxAttempts > 0 && dead.by.nth > b.maxAttempts {
			dead.buried = true
			b.befell.add("dead letter")
			return
		}
	}
	b.h.violation("dead letter %s does not come from the queue", it.id)
}

// claimed: items are delivered in the order in which they were put, and each to
// one at a time.
func (b *items) claimed(q *shelf, it *item, c zktest.Change) {
	if it == nil || it.ended > 0 {
		b.h.violation("%s claims an item that is gone", c.Path)
		return
	}
	for _, other := range it.claims {
		if (other.flag || other.c) && !b.tampered(other) {
			b.h.violation("%s claims an item that %s has", c.Path, other.client)
		}
	}
	cl := &claim{
		of: it, path: c.Path, nth: len(it.claims) + 1, token: zkrecipes.Token(c.Zxid), client: string(c.Data), flag: true,
	}
	it.claims = append(it.claims, cl)
	q.flags[c.Path] = cl
	if cl.nth > 1 {
		b.befell.add("delivered again")
	} else {
		for q.order[q.taken] != it && (len(q.order[q.taken].claims) > 0 || q.order[q.taken].ended > 0) {
			q.taken++
		}
		if first := q.order[q.taken]; first != it && first.came > b.wiped && it.came > b.wiped {
			b.h.violation("%s is delivered before %s, which was put before it", it.id, first.id)
		}
	}
	for _, older := range q.order {
		if older == it {
			break
		}
		if !b.held(older) && older.ended == 0 && time.Since(older.free) > 6*b.timeout && older.came > b.wiped && it.came > b.wiped {
			b.h.violation("%s is delivered, and %s, which was put before it, has been free for %v", it.id, older.id, time.Since(older.free))
		}
	}
}

func (b *items) held(it *item) bool {
	for _, cl := range it.claims {
		if cl.flag || cl.c || b.tampered(cl) {
			return true
		}
	}
	return false
}

// tampered reports whether the operator has been at a claim, or is about to be.
// (A claim whose second znode alone is deleted excludes nobody who has not seen
// the first.)
func (b *items) tampered(cl *claim) bool {
	b.gathering.mu.Lock()
	defer b.gathering.mu.Unlock()
	item, _, _ := strings.Cut(cl.path, ".")
	return b.evicted[cl.path] || b.evicted[item+"/c"]
}

func (b *items) deleted(q *shelf, it *item, c zktest.Change) {
	it.ended = c.Zxid
	q.standing--
	for _, cl := range it.claims {
		if cl.gone == c.Zxid {
			it.by = cl
		}
	}
	if it.by == nil {
		it.wiped = b.wiping
		if !b.wiping {
			b.h.violation("%s is deleted, and by nobody who had claimed it", c.Path)
		}
	}
}

// affected: what an ack does beside is done with it, once.
func (b *items) affected(id string, c zktest.Change) {
	for _, it := range b.queue.order {
		if it.id != id {
			continue
		}
		if it.effects++; it.effects > 1 || it.ended != c.Zxid || it.by == nil {
			b.h.violation("%s: done %d times, at 0x%x; its item was acked at 0x%x", c.Path, it.effects, c.Zxid, it.ended)
		}
		return
	}
	b.h.violation("%s: no such item", c.Path)
}

// told notes that a consumer was handed an item, and looks whether it is one.
func (b *items) told(q *shelf, d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var cl *claim
	for _, other := range q.flags {
		if other.token == d.token && other.of.id == string(d.ID) {
			cl = other
		}
	}
	switch {
	case cl == nil || cl.client != d.client || cl.told != nil || string(d.Data) != cl.of.data:
		b.h.violation("%s was handed %s under 0x%x, which is no claim of its own", d.client, d.ID, int64(d.token))
	case d.Attempt != cl.nth && (d.Attempt < cl.nth || cl.flag && cl.c):
		b.h.violation("%s was handed %s as attempt %d, which is its %s", d.client, d.ID, d.Attempt, strconv.Itoa(cl.nth))
	}
	d.claim = cl
	if cl != nil {
		cl.told = d
	}
}

// left returns how many items there are.
func (b *items) left(q *shelf) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return q.standing
}
