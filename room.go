package zkrecipes

import (
	"context"
	"errors"
)

// Producers of a bounded queue stand in a line of their own. Only the first one
// counts, and sleeps where there is no room; it leaves with its put, in one
// transaction, and the next one counts.

// waitForRoom returns when the queue has room for n items more. p is first among
// the producers.
func (q *Queue) waitForRoom(ctx context.Context, p *place, n int) error {
	st := p.s.stockOf(q.abs())
	for {
		count, watches, err := st.count(ctx)
		if err == nil && count+n <= q.opts.MaxLen {
			return nil
		}
		if err == nil {
			err = p.sleep(ctx, watches)
		}
		if err != nil && !errors.Is(err, errStale) {
			return err
		}
	}
}

// count returns how many items there are, and the watches that hear of one that
// goes: all those up to the first segment with a free item, since nobody can ack
// one in a segment behind that before there is a change in these. What has not
// changed since it was last counted is not asked for again.
func (st *stock) count(ctx context.Context) (n int, watches []*watch, err error) {
	free := false
	err = st.walk(ctx, func(_ int64, w *watch) bool {
		if !free {
			watches = append(watches, w)
		}
		for _, node := range itemNodes(w.children) {
			n++
			free = free || !node.taken
		}
		return true
	})
	return n, watches, err
}
