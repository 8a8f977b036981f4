package zkrecipes

import (
	"context"
	"errors"
	"slices"
)

// Producers of a bounded queue stand in a line of their own. Only the first one
// counts, and sleeps where there is no room; it leaves with its put, in one
// transaction, and the next one counts.

// waitForRoom returns when the queue has room for n items more. p is first among
// the producers.
func (q *Queue) waitForRoom(ctx context.Context, p *place, n int) error {
	st := p.s.stockOf(q.abs())
	for {
		// Whose turn it is by an event may be on a server by now that has not heard of
		// the put before.
		if p.s.moved(p) {
			if err := p.s.sync(ctx, st.path); err != nil {
				return err
			}
			p.heard = 0 // the answer has advanced the zxid
		}
		count, watches, err := st.count(ctx)
		switch {
		case err != nil:
		case count+n > q.opts.MaxLen:
			err = p.sleep(ctx, watches)
		case !p.s.moved(p):
			return nil
		}
		if err != nil && !errors.Is(err, errStale) {
			return err
		}
	}
}

// count returns how many items there are, and the watches that hear of one that
// goes: those of segments with an item that somebody has, and those up to the first
// that is free, since the next one is taken from there. What has not changed since
// it was last counted is not asked for again.
func (st *stock) count(ctx context.Context) (n int, watches []*watch, err error) {
	free := false
	err = st.walk(ctx, func(_ int64, w *watch) bool {
		nodes := itemNodes(w.children)
		n += len(nodes)
		if !free || slices.ContainsFunc(nodes, func(node itemNode) bool { return node.taken }) {
			watches = append(watches, w)
		}
		free = free || slices.ContainsFunc(nodes, func(node itemNode) bool { return !node.taken })
		return true
	})
	return n, watches, err
}
