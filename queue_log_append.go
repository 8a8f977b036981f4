package zkrecipes

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-zookeeper/zk"
)

// Items are put into the open segment, in transactions that fail once it is
// sealed: one put into an old segment, while others are in the next, would come
// out before them. The put that seals a segment still puts into it, since that
// is where the first consumer sleeps, and sealing alone is no change of children.

// end is the segment that was the open one when last heard of.
type end struct {
	known   bool
	guessed bool // that it is the next after a sealed one; nobody has seen it
	behind  bool // it was known and is gone: a server that lags may still show it
	number  int64
	fill    int64 // how many children it is known to have had
}

// deposit is the part of a transaction that puts items at a queue's end.
type deposit struct {
	st    *stock
	n     int64 // of the segment
	seals bool
	items int
	ops   []any
}

// newItem is one to be put.
type newItem struct {
	id   ItemID
	data []byte
}

// deposit returns the part that puts the items, and seals their segment if with
// them it will have had size children.
func (st *stock) deposit(ctx context.Context, items []newItem, size int64) (*deposit, error) {
	e, err := st.tail(ctx)
	if err != nil {
		return nil, err
	}
	d := &deposit{st: st, n: e.number, seals: e.fill+int64(len(items)) >= size, items: len(items)}
	d.ops = st.depositOps(d.n, d.seals, items)
	return d, nil
}

func (st *stock) depositOps(n int64, seals bool, items []newItem) []any {
	var ops []any
	acl := st.s.c.acl
	if seals {
		ops = append(ops, &zk.SetDataRequest{Path: st.segment(n), Version: 0})
	} else {
		ops = append(ops, &zk.CheckVersionRequest{Path: st.segment(n), Version: 0})
	}
	for _, it := range items {
		ops = append(ops, &zk.CreateRequest{
			Path: st.segment(n) + "/" + string(it.id), Data: it.data, Acl: acl, Flags: zk.FlagSequence,
		})
	}
	if seals {
		ops = append(ops, &zk.CreateRequest{Path: st.segment(n + 1), Acl: acl})
	}
	return ops
}

// done notes what a deposit was answered with.
func (d *deposit) done(rs []zk.MultiResponse) {
	last := rs[d.items].String
	number, err := strconv.ParseInt(last[len(d.st.segment(d.n))+1+idLength:], 10, 32)
	st := d.st
	st.mu.Lock()
	defer st.mu.Unlock()
	switch e := &st.end; {
	case !e.known || e.number != d.n:
	case d.seals:
		*e = end{known: true, number: d.n + 1}
	case err == nil:
		e.guessed, e.fill = false, max(e.fill, number+1)
	}
}

// refused reports that a deposit failed, at its operation of that index, because
// the open segment is another one. The next deposit may do.
func (d *deposit) refused(failed int, err error) bool {
	st := d.st
	st.mu.Lock()
	defer st.mu.Unlock()
	current := st.end.known && st.end.number == d.n
	switch {
	case failed == 0 && errors.Is(err, zk.ErrBadVersion): // sealed
		if current && st.end.guessed {
			st.end = end{} // and perhaps many more behind it
		} else if current {
			st.end = end{known: true, guessed: true, number: d.n + 1}
		}
	case failed == 0 && errors.Is(err, zk.ErrNoNode),
		d.seals && failed == len(d.ops)-1 && errors.Is(err, zk.ErrNodeExists):
		if current {
			st.end = end{behind: true}
		}
	default:
		return false
	}
	return true
}

// tail returns the open segment, as far as is known.
func (st *stock) tail(ctx context.Context) (end, error) {
	st.mu.Lock()
	e := st.end
	st.mu.Unlock()
	if e.known {
		return e, nil
	}
	if e.behind {
		if err := st.s.sync(ctx, st.path); err != nil {
			return end{}, err
		}
	}
	listed := false // a segment that was sealed
	for tries := 0; tries < maxTries; {
		ns, err := st.list(ctx)
		if err != nil {
			return end{}, err
		}
		e := end{known: true, number: ns[len(ns)-1]}
		_, stat, err := st.s.get(ctx, st.segment(e.number))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			tries++
			continue
		case err != nil:
			return end{}, err
		case stat.Version > 0 && !listed: // sealed since it was listed
			listed = true
			continue
		case stat.Version > 0:
			if err := st.repair(ctx); err != nil {
				return end{}, err
			}
			continue
		}
		e.fill = created(stat)
		st.mu.Lock()
		defer st.mu.Unlock()
		st.end = e
		return e, nil
	}
	return end{}, errContended
}

// created returns how many children a znode has had. Its counter of changes
// counts those that were created and those that are gone (DataNode.copyStat).
func created(stat *zk.Stat) int64 {
	return (int64(uint32(stat.Cversion)) + int64(stat.NumChildren)) / 2
}
