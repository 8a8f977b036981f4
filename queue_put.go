package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// put puts items, in one transaction. An item's id is known before it is sent:
// so where it cannot be found out whether they were put, the ids come with the
// error.
func (q *Queue) put(ctx context.Context, datas [][]byte) ([]ItemID, error) {
	if err := q.check(ctx); err != nil {
		return nil, err
	}
	if len(datas) == 0 {
		return []ItemID{}, nil
	}
	if q.opts.MaxLen > 0 && len(datas) > q.opts.MaxLen {
		return nil, fmt.Errorf("%d items: QueueOptions.MaxLen is %d", len(datas), q.opts.MaxLen)
	}
	items := make([]newItem, len(datas))
	ids := make([]ItemID, len(datas))
	for i, data := range datas {
		ids[i] = ItemID(newID())
		items[i] = newItem{ids[i], data}
	}
	ctx, done := q.c.bind(ctx)
	defer done()
	for {
		s, err := q.c.live(ctx)
		if err == nil {
			err = q.fits(s, items)
		}
		if err == nil {
			err = q.putIn(ctx, s, items)
		}
		switch {
		case err == nil, errors.Is(err, ErrUncertain):
			return ids, err
		case !errors.Is(err, errSessionOver): // else nothing was sent
			return nil, err
		}
	}
}

// putIn waits for room, where there is a bound, and puts the items: in one
// session, since the receipt ends with it.
func (q *Queue) putIn(ctx context.Context, s *session, items []newItem) error {
	if q.opts.MaxLen > 0 {
		return q.room.inTurn(ctx, kindLock, nil, func(p *place) error {
			if err := q.waitForRoom(ctx, p, len(items)); err != nil {
				return err
			}
			return q.send(ctx, p.s, p, items)
		})
	}
	return q.send(ctx, s, nil, items)
}

// send sends the items, and gives up the place in the room with them, if there
// is one.
func (q *Queue) send(ctx context.Context, s *session, p *place, items []newItem) error {
	st := s.stockOf(q.abs())
	var leave []any
	if p != nil {
		leave = p.farewell(true)
	}
	for tries := 0; tries < maxTries; tries++ {
		d, err := st.deposit(ctx, items, q.segment)
		if err != nil {
			return err
		}
		sl, err := st.slot(ctx)
		if err != nil {
			return err
		}
		receipt := sl.write(string(items[0].id))
		x := newSending(s, receipt, d.ops, leave)
		rs, failed, err := x.wait(ctx)
		part, op := partOf(failed, receipt, d.ops, leave)
		switch {
		case err == nil:
			st.written(sl)
			d.done(rs[len(receipt):])
			return nil
		case part == 0:
			if done, err := st.refused(sl, x.again, err); done || err != nil {
				return err
			}
			continue
		case x.open() && failed < 0:
			st.abandon(sl, x)
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		st.unused(sl)
		switch {
		case part == 1 && d.refused(op, err):
			if errors.Is(err, zk.ErrBadVersion) { // somebody else has filled the segment
				tries--
			}
		case part == 2 && errors.Is(err, zk.ErrNoNode):
			return p.gone(ctx)
		case part == 2 && len(leave) > 1: // the signal is refused; the place can go without
			leave = p.farewell(false)
		default:
			return err
		}
	}
	return errContended
}

// abandon takes a receipt back once it is known whether its transaction, which
// nobody waits for any more, has written it.
func (st *stock) abandon(sl *slot, x *sending) {
	if x.t == nil || x.again {
		st.discard(sl)
		return
	}
	st.s.c.tasks.start(func() {
		<-x.t.call.Done()
		switch _, _, err := x.t.result(); {
		case err == nil:
			st.written(sl)
		case unsettled(err), errors.Is(err, errSessionOver):
			st.discard(sl)
		default:
			st.unused(sl)
		}
	})
}

// fits refuses what no transaction has room for, before anything is sent: the
// put, and the one that would put each item among the dead letters.
func (q *Queue) fits(s *session, items []newItem) error {
	sum := 0
	for _, it := range items {
		if limit := q.opts.MaxItemBytes; limit > 0 && len(it.data) > limit {
			return fmt.Errorf("item of %d bytes: QueueOptions.MaxItemBytes is %d", len(it.data), limit)
		}
		sum += len(it.data)
	}
	// More than there can be beside the data: most need not be counted.
	op := len(q.abs()) + len(q.deadPath()) + createSize("", nil, q.c.acl) + 200
	if sum+(len(items)+12)*op < jute.MaxFrame {
		return nil
	}
	st := s.stockOf(q.abs())
	receipt := (&slot{path: fmt.Sprintf("%s/%016x-%019d", st.receipts(), 0, 0)}).write(newID())
	var leave []any
	if q.opts.MaxLen > 0 {
		p := &place{line: q.room, s: s, path: q.room.abs() + "/_c_" + newUUID() + "-" + string(kindLock) + "0000000000"}
		leave = p.farewell(true)
	}
	if n := frameSize(receipt, st.depositOps(0, true, items), leave); n > jute.MaxFrame {
		return tooLarge(n)
	}
	if q.opts.MaxAttempts < 0 {
		return nil
	}
	dead := &stock{s: s, path: q.deadPath()}
	claim := q.newClaim(s, st.segment(0)+"/"+newID()+"0000000000")
	for _, it := range items {
		if n := frameSize(claim.ackOps(), dead.depositOps(0, true, []newItem{it})); n > jute.MaxFrame {
			return fmt.Errorf("could not be moved to the dead letters: %w", tooLarge(n))
		}
	}
	return nil
}

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
