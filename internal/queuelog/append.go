package queuelog

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Items are put into the open segment, by transactions that fail once it is sealed.
// An item put into an old segment while others are in the next would come out before
// them. The append that seals a segment still puts its items there, because that is
// where the first consumer sleeps, and sealing alone fires no watch on children.

// tail is the last segment that was known to be open.
type tail struct {
	known   bool
	guessed bool // it follows on a sealed one; nobody has seen it
	lagging bool // it was known and is gone; a server that lags may still show it
	number  int64
	creates int64 // how many children it is known to have had, at least
}

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
	number  int64             // of the segment
	segment any               // the operation that checks it, or seals it
	last    *zk.CreateRequest // of the last item
	next    *zk.CreateRequest // of the next segment, nil if this one stays open
}

// Append returns the part that puts the items. It seals their segment if with them
// the segment will have had size children.
func (l *Log) Append(ctx context.Context, items []Item, size int64) (*Append, error) {
	t, err := l.findTail(ctx)
	if err != nil {
		return nil, err
	}
	return l.appendTo(t.number, t.creates+int64(len(items)) >= size, items), nil
}

// LargestAppend returns the largest part that can put the items.
func (l *Log) LargestAppend(items []Item) *Append { return l.appendTo(0, true, items) }

func (l *Log) appendTo(n int64, seals bool, items []Item) *Append {
	a := &Append{l: l, number: n}
	if seals {
		a.segment = &zk.SetDataRequest{Path: l.Segment(n), Version: 0}
	} else {
		a.segment = &zk.CheckVersionRequest{Path: l.Segment(n), Version: 0}
	}
	a.Ops = append(a.Ops, a.segment)
	for _, it := range items {
		a.last = &zk.CreateRequest{
			Path: l.Segment(n) + "/" + it.prefix(), Data: it.Data, Acl: l.cfg.ACL, Flags: zk.FlagSequence,
		}
		a.Ops = append(a.Ops, a.last)
	}
	if seals {
		a.next = &zk.CreateRequest{Path: l.Segment(n + 1), Acl: l.cfg.ACL}
		a.Ops = append(a.Ops, a.next)
	}
	return a
}

// Done notes the results of a transaction that was carried out.
func (a *Append) Done(rs zkconn.Results) {
	created := rs.Created(a.last)
	number, ok := itemNumber(created[len(a.l.Segment(a.number))+1:])
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	switch t := &l.tail; {
	case !t.known || t.number != a.number:
	case a.next != nil:
		*t = tail{known: true, number: a.number + 1}
	case ok:
		t.guessed, t.creates = false, max(t.creates, number+1)
	}
}

// Moved reports whether a transaction failed, at that operation, because the open
// segment is another one. sealed: somebody else has filled it. The next Append may
// do.
func (a *Append) Moved(failed any, err error) (moved, sealed bool) {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.tail.known && l.tail.number == a.number
	switch {
	case failed == a.segment && errors.Is(err, zk.ErrBadVersion):
		if current && l.tail.guessed {
			l.tail = tail{} // there may be many more after it
		} else if current {
			l.tail = tail{known: true, guessed: true, number: a.number + 1}
		}
		return true, true
	case failed == a.segment && errors.Is(err, zk.ErrNoNode),
		a.next != nil && failed == a.next && errors.Is(err, zk.ErrNodeExists):
		if current {
			l.tail = tail{lagging: true}
		}
		return true, false
	}
	return false, false
}

// findTail returns the open segment, as far as is known.
func (l *Log) findTail(ctx context.Context) (tail, error) {
	l.mu.Lock()
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
	listed := false // the last one was, and was sealed
	for tries := 0; tries < zkconn.MaxTries; {
		ns, _, err := l.list(ctx)
		if err != nil {
			return tail{}, err
		}
		t := tail{known: true, number: ns[len(ns)-1]}
		_, stat, err := l.s.Get(ctx, l.Segment(t.number))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			tries++
			continue
		case err != nil:
			return tail{}, err
		case stat.Version > 0 && !listed: // sealed since it was listed
			listed = true
			continue
		case stat.Version > 0:
			if err := l.repair(ctx); err != nil {
				return tail{}, err
			}
			continue
		}
		t.creates = Creates(stat)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tail = t
		return t, nil
	}
	return tail{}, zkconn.ErrContended
}
