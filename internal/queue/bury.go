package queue

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Bury moves an item to the dead letters, also one that a consumer has.
func (q *Queue) Bury(ctx context.Context, id string) error {
	if err := q.Check(ctx); err != nil {
		return err
	}
	if q.isDead {
		return errors.New("these are dead letters")
	}
	var from *browsed
	var r *removal
	err := q.find(ctx, id, func(seg *browsed, item queuelog.Entry) error {
		from, r = seg, &removal{q: q, item: seg.path + "/" + item.Name, buries: true}
		if item.Flag != "" {
			r.flag = seg.path + "/" + item.Flag
		}
		return nil
	})
	if err != nil {
		return err
	}
	ctx, done := q.Client.Bind(ctx)
	defer done()
	moved, err := r.move(ctx, q.DeadLetters(), func(s *session.Session, data []byte, stat *zk.Stat) (queuelog.Item, bool) {
		return q.buried(s, r, data, stat), true
	})
	switch {
	case err != nil:
		return err
	case !moved:
		return r.stays
	}
	znodes := 1
	if r.flag != "" {
		znodes++
	}
	q.deleteEmptied(ctx, from, znodes)
	return nil
}

// buried returns the dead letter of the item that r removes.
func (q *Queue) buried(s *session.Session, r *removal, data []byte, stat *zk.Stat) queuelog.Item {
	name := path.Base(r.item)
	data, _ = CutNote(name, data)
	f := Failure{Queue: q.Abs(), Attempts: queuelog.Claims(stat, r.taken), Text: "buried by " + q.Client.Identity}
	if r.consumer != "" {
		f.Text += fmt.Sprintf(" while %s had it", r.consumer)
	}
	letters := NewQueueLog(s, q.DeadLettersPath())
	beside := slices.Concat(letters.LargestReceipt().Write(name), r.ops(s))
	return q.letter(letters, name[:queuelog.IDLength], data, f, beside)
}

// readClaim reads which claim the item has, and returns its consumer, empty if it has none.
//
// Somebody may have deleted the flag alone. Then nothing would tell this claim from the next one,
// so readClaim waits until its session has deleted the rest.
func (r *removal) readClaim(ctx context.Context, s *session.Session) (consumer string, _ error) {
	exclusion := r.item + queuelog.ClaimName
	for {
		flag, stat, err := s.Get(ctx, exclusion)
		if errors.Is(err, zk.ErrNoNode) {
			r.taken = false
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", exclusion, err)
		}
		if stat.EphemeralOwner == 0 || !strings.HasPrefix(string(flag), path.Base(r.item)+".") {
			return "", errNotAClaim(exclusion)
		}
		r.flag, r.taken = path.Dir(r.item)+"/"+string(flag), true
		identity, _, err := s.Get(ctx, r.flag)
		switch {
		case errors.Is(err, zk.ErrNoAuth), err == nil && len(identity) == 0:
			return "a consumer", nil
		case !errors.Is(err, zk.ErrNoNode):
			return string(identity), err
		}
		if err := awaitEnd(ctx, s, exclusion, stat.Czxid); err != nil {
			return "", err
		}
	}
}

// awaitEnd waits until the znode with that czxid is changed or deleted.
func awaitEnd(ctx context.Context, s *session.Session, path string, czxid int64) error {
	w, err := s.Watch(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && w.Stat.Czxid != czxid:
		return nil
	case err != nil:
		return err
	}
	return zkconn.Until(ctx, s.Session, w.Fired())
}
