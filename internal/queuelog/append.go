package queuelog

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Items are put into the open segment, by transactions that fail once it is sealed (Q4 of package
// queue). An item put into an old segment while others are in the next would come out before them.

// tail is the last segment that was known to be open.
type tail struct {
	known   bool
	guessed int  // how many sealed ones were found in a row before; nobody has seen this one
	lagging bool // it was known and is gone; a server that lags may still show it
	number  int64
	creates int64 // how many children it is known to have had, at least
	// sealed is one more than the number of a segment that was sealed although a listing
	// showed it as the last, 0: none.
	sealed int64
}

// maxGuesses is how many segments are tried, each behind one that was sealed, before they are
// listed. There may be many more.
const maxGuesses = 4

// Item is an item to be appended.
type Item struct {
	ID    string
	Data  []byte
	Noted bool // the data begin with a note
}

// prefix returns the item's name without its number.
func (it Item) prefix() string {
	if it.Noted {
		return it.ID + noteMark
	}
	return it.ID
}

// Append is the part of a transaction that puts items at a queue's tail.
type Append struct {
	Ops []any

	l       *Log
	number  int64             // of the first segment
	segment any               // the operation that checks it, or seals it
	last    *zk.CreateRequest // of the last item
	home    int64             // the segment of the last item
	nexts   []any             // the creations of segments; the last one of these stays open
}

// Append returns the part that puts the items. It seals each segment that with them will
// have had size children. Items that come behind those go on in the next one. The first
// item goes into the segment that is open before, even if that is full by then: this
// wakes consumers that sleep there.
func (l *Log) Append(ctx context.Context, items []Item, size int64) (*Append, error) {
	t, err := l.findTail(ctx)
	if err != nil {
		return nil, err
	}
	return l.appendTo(t.number, t.creates, items, size), nil
}

// LargestAppend returns the largest part that can put the items.
func (l *Log) LargestAppend(items []Item, size int64) *Append {
	return l.appendTo(0, size, items, size)
}

func (l *Log) appendTo(n, creates int64, items []Item, size int64) *Append {
	a := &Append{l: l, number: n}
	for {
		here := items[:min(max(size-creates, 1), int64(len(items)))]
		items = items[len(here):]
		seals := creates+int64(len(here)) >= size
		switch {
		case seals:
			a.Ops = append(a.Ops, &zk.SetDataRequest{Path: l.Segment(n), Version: 0})
		case n == a.number:
			a.Ops = append(a.Ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: 0})
		}
		for _, it := range here {
			a.last = &zk.CreateRequest{
				Path: l.Segment(n) + "/" + it.prefix(), Data: it.Data, Acl: l.s.ACL(), Flags: zk.FlagSequence,
			}
			a.Ops = append(a.Ops, a.last)
		}
		a.home = n
		if !seals {
			break
		}
		n, creates = n+1, 0
		next := &zk.CreateRequest{Path: l.Segment(n), Acl: l.s.ACL()}
		a.Ops, a.nexts = append(a.Ops, next), append(a.nexts, next)
		if len(items) == 0 {
			break
		}
	}
	a.segment = a.Ops[0]
	return a
}

// All returns the operations. A nil Append has none.
func (a *Append) All() []any {
	if a == nil {
		return nil
	}
	return a.Ops
}

// Number returns the number of the first segment that is tried. It grows as others fill
// segments.
func (a *Append) Number() int64 { return a.number }

// Done notes the results of a transaction that was carried out.
func (a *Append) Done(o zkconn.Outcome) {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tail
	open := a.number + int64(len(a.nexts))
	if !t.known || t.number > a.number {
		return
	}
	number, ok := itemNumber(o.Created(a.last)[len(l.Segment(a.home))+1:])
	switch {
	case open > a.home:
		*t = tail{known: true, number: open}
	case open > t.number:
		*t = tail{known: true, number: open, creates: number + 1}
	case ok:
		t.guessed, t.creates = 0, max(t.creates, number+1)
	}
}

// Moved reports whether a transaction was refused because the open segment is another one.
// The next Append may succeed.
func (a *Append) Moved(o zkconn.Outcome) bool {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tail
	current := t.known && t.number == a.number
	switch {
	case o.RefusedAt(a.segment, zk.ErrBadVersion):
		if current && t.guessed == maxGuesses {
			*t = tail{}
		} else if current {
			*t = tail{known: true, guessed: t.guessed + 1, number: a.number + 1}
		}
		return true
	case o.RefusedAt(a.segment, zk.ErrNoNode), o.RefusedIn(a.nexts, zk.ErrNodeExists):
		if current {
			*t = tail{lagging: true, sealed: t.sealed}
		}
		return true
	}
	return false
}

// findTail returns the open segment, as far as is known.
func (l *Log) findTail(ctx context.Context) (tail, error) {
	l.mu.Lock()
	l.noteHistory()
	t := l.tail
	l.mu.Unlock()
	if t.known {
		return t, nil
	}
	if t.lagging {
		if err := l.s.Sync(ctx, l.cfg.Path); err != nil {
			return tail{}, err
		}
	}
	for range zkconn.MaxTries {
		found, err := l.lastSegment(ctx, t)
		if err != nil {
			return tail{}, err
		}
		if found.known {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.tail = found
			return found, nil
		}
	}
	return tail{}, zkconn.ErrContended
}

// lastSegment lists the segments. before is what was known of the tail. The result is not
// known where the segments must be listed again.
func (l *Log) lastSegment(ctx context.Context, before tail) (tail, error) {
	ns, _, err := l.list(ctx)
	if err != nil {
		return tail{}, err
	}
	t := tail{known: true, number: ns[len(ns)-1]}
	_, stat, err := l.s.Get(ctx, l.Segment(t.number))
	switch {
	case errors.Is(err, zk.ErrNoNode): // others have filled it, emptied it and deleted it
	case err != nil:
		return tail{}, err
	case stat.Version == 0:
		t.creates = Creates(stat)
		return t, nil
	case before.sealed == t.number+1: // and nothing follows
		return tail{}, l.repair(ctx)
	default:
		t.sealed = t.number + 1
	}
	// It was sealed since it was listed. So there is, or was, a next one.
	t.number, t.guessed = t.number+1, 1
	return t, nil
}
