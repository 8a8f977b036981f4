package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Remove removes an item that no consumer has.
func (q *Queue) Remove(ctx context.Context, id string) error {
	return q.find(ctx, id, func(seg *browsed, item queuelog.Entry) error {
		if item.Claimed {
			return ErrItemTaken
		}
		r := &removal{q: q, item: seg.path + "/" + item.Name}
		removed, err := q.remove(ctx, seg.s, []*removal{r})
		if err != nil {
			return err
		}
		q.deleteEmptied(ctx, seg, removed)
		return r.stays
	})
}

// Purge removes all items that no consumer has, and returns how many it removed.
func (q *Queue) Purge(ctx context.Context) (removed int, err error) {
	err = q.eachSegment(ctx, func(seg *browsed) (bool, error) {
		var all []*removal
		for _, e := range seg.items {
			if !e.Claimed {
				all = append(all, &removal{q: q, item: seg.path + "/" + e.Name})
			}
		}
		before := removed
		for part := range slices.Chunk(all, removalsAtOnce(zkconn.MaxRequest(q.Client.MaxBuffer), seg.path)) {
			n, err := q.remove(ctx, seg.s, part)
			removed += n
			if err != nil {
				return false, err
			}
		}
		q.deleteEmptied(ctx, seg, removed-before)
		return true, nil
	})
	return removed, err
}

// removalsAtOnce returns for how many items of a segment a transaction has room, and no
// more than a server carries out quickly.
func removalsAtOnce(maxRequest int, segment string) int {
	return min(max(maxRequest/2/(2*len(segment)+500), 1), 100)
}

// eachSegment is like browse, but begins with a sync, and anew in the next session.
func (q *Queue) eachSegment(ctx context.Context, f func(*browsed) (more bool, err error)) error {
	if err := q.Check(ctx); err != nil {
		return err
	}
	ctx, done := q.Client.Bind(ctx)
	defer done()
	return q.Client.InSessions(ctx, func(s *session.Session) error {
		if err := s.Sync(ctx, q.Abs()); err != nil {
			return err
		}
		_, err := q.browseIn(ctx, s, 0, f)
		return err
	})
}

// deleteEmptied deletes a segment that is sealed, and from which so many items were removed, if
// nothing else was listed there. The first consumer would do so, one after the other, and
// where there is none, as among dead letters, they would stay. The servers refuse it if
// somebody has claimed an item meanwhile, and nothing is put into a sealed segment.
func (q *Queue) deleteEmptied(ctx context.Context, seg *browsed, removed int) {
	if seg.stat.Version == 0 || removed < int(seg.stat.NumChildren) || !q.Client.Writes.Begin() {
		return
	}
	defer q.Client.Writes.End()
	QueueIn(seg.s, q.Abs()).Delete(ctx, seg.number, seg.stat)
}

// remove removes items in one transaction, and leaves out those that are taken or gone.
func (q *Queue) remove(ctx context.Context, s *session.Session, rs []*removal) (removed int, err error) {
	if !q.Client.Writes.Begin() {
		return 0, errs.ErrClosed
	}
	defer q.Client.Writes.End()
	log := QueueIn(s, q.Abs())
	for tries := 0; tries < zkconn.MaxTries; tries++ {
		if len(rs) == 0 {
			return 0, nil
		}
		parts := make([][]any, len(rs))
		for i, r := range rs {
			parts[i] = r.ops(s)
		}
		o := log.Transact(ctx, rs[0].item, errs.ErrUncertain, parts...)
		if o.Applied() {
			return len(rs), nil
		}
		i := slices.IndexFunc(parts, func(ops []any) bool { return o.RefusedIn(ops) })
		if i < 0 {
			return 0, o.Err()
		}
		marked := rs[i].marks
		again, err := rs[i].refused(ctx, s, o.Err())
		switch {
		case err != nil:
			return 0, err
		case !again:
			rs = slices.Delete(rs, i, i+1)
			tries--
		case rs[i].marks && !marked: // the next attempt gets further
			tries--
		}
	}
	return 0, zkconn.ErrContended
}

// removal removes a free item, as part of a transaction. It needs no claim: the servers
// do not delete an item with a claim's exclusion below it, and one with other znodes below
// it is marked, which takes an exclusion of its own.
//
// With buries it removes an item that a consumer has, too, together with the claim. No other
// claim has the flag's name, so if the claim has ended since it was read the transaction fails:
// it never ends the next consumer's.
type removal struct {
	q     *Queue
	item  string
	marks bool

	buries bool
	flag   string // its path; empty: none was seen
	taken  bool   // there is the exclusion to which the flag belongs
	// consumer has the item, as it was read last; empty: nobody.
	consumer string

	// stays is ErrItemTaken or ErrItemGone if the item was not removed.
	stays error
}

func (r *removal) ops(s *session.Session) (ops []any) {
	o := r.q.NewClaim(s, r.item).AckOps(r.marks)
	if o.flag.Path = r.flag; r.flag != "" {
		ops = append(ops, o.flag)
	}
	if r.taken {
		ops = append(ops, o.exclusion)
	}
	return append(ops, o.item...)
}

// refused is called when one of the operations was refused, with its error. again: the
// next attempt may be carried out. Otherwise there is an error, or stays is set.
func (r *removal) refused(ctx context.Context, s *session.Session, err error) (again bool, _ error) {
	switch {
	case errors.Is(err, zk.ErrNoNode) && r.buries: // the item, or only the claim
		r.flag = ""
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		r.stays = ErrItemGone
		return false, nil
	case !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNodeExists):
		return false, fmt.Errorf("item %s: %w", r.item, err)
	}
	below, err := childrenOf(ctx, s, r.item)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		r.stays = ErrItemGone
		return false, nil
	case err != nil:
		return false, err
	case r.buries: // a claim is read again
		below = slices.DeleteFunc(below, func(name string) bool { return name == queuelog.ClaimName[1:] })
	case slices.Contains(below, queuelog.ClaimName[1:]):
		return r.whyTaken(ctx, s)
	}
	if r.marks = len(below) > 0; r.marks {
		r.q.Client.Log(slog.LevelError, "an item cannot be removed, because there are znodes below it; it is marked as done instead",
			"queue", r.q.Path, "znode", r.item, "children", below)
	}
	return true, nil
}

// childrenOf lists the znodes below an item that the servers did not delete because it is
// not empty. Nothing may be there any more: while the end of a session is under way, a
// ZooKeeper's leader still counts the session's znodes below their parents, although
// requests find them gone (PrepRequestProcessor; zktest.Miscount). So it waits until the
// servers have committed what is under way.
func childrenOf(ctx context.Context, s *session.Session, item string) ([]string, error) {
	if err := s.Sync(ctx, item); err != nil {
		return nil, err
	}
	below, _, err := s.Children(ctx, item)
	return below, err
}

// whyTaken is for an item with a znode in a claim's place.
func (r *removal) whyTaken(ctx context.Context, s *session.Session) (again bool, _ error) {
	exclusion := r.item + queuelog.ClaimName
	_, stat, err := s.Get(ctx, exclusion)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true, nil
	case err != nil && !errors.Is(err, zk.ErrNoAuth):
		return false, err
	case err != nil || stat.EphemeralOwner == 0: // not a consumer's
		r.stays = errNotAClaim(exclusion)
	default:
		r.stays = ErrItemTaken
	}
	return false, nil
}

// errNotAClaim is for a znode in a claim's place that is no consumer's, as far as is known.
func errNotAClaim(exclusion string) error {
	return fmt.Errorf("%w, or somebody else has created %s", ErrItemTaken, exclusion)
}

// replacement returns what a removal puts into another queue for the item that was read, in that
// session. ok is false if the item is to stay.
type replacement func(s *session.Session, data []byte, stat *zk.Stat) (_ queuelog.Item, ok bool)

// move removes the item and puts another one into the queue to for it, in one transaction.
func (r *removal) move(ctx context.Context, to *Queue, replace replacement) (moved bool, err error) {
	for range zkconn.MaxTries {
		data, stat, s, err := r.read(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			r.stays = ErrItemGone
			return false, nil
		}
		if err != nil {
			return false, err
		}
		item, ok := replace(s, data, stat)
		if !ok {
			return false, nil
		}
		err = to.putItems(ctx, []queuelog.Item{item}, r.ops(s)...)
		refused := refusedOp{}
		if !errors.As(err, &refused) {
			return err == nil, err
		}
		again, err := r.refused(ctx, s, refused.error)
		if !again && !errors.Is(err, zkconn.ErrSessionOver) {
			return false, err
		}
	}
	return false, zkconn.ErrContended
}

// read reads the item, in the next session if this one ends, and returns the session. If the removal ends
// a claim, too, it reads that before: so the Stat counts a claim that still stands when it is ended.
func (r *removal) read(ctx context.Context) (data []byte, stat *zk.Stat, s *session.Session, err error) {
	err = r.q.Client.InSessions(ctx, func(live *session.Session) (err error) {
		s = live
		if r.buries {
			r.consumer, err = r.readClaim(ctx, s)
		}
		if err == nil {
			data, stat, err = s.Get(ctx, r.item)
		}
		return err
	})
	return data, stat, s, err
}
