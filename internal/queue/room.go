package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Producers of a bounded queue stand in a line of their own. Only the first one counts
// the items, and sleeps where there is no room. It leaves with its put (Q10).
//
// If the first leaves the room that it needs unused, one of the next deletes the
// places ahead, and is the first. A put of theirs that is under way fails then. A producer that
// was only slow joins again, at the end.

// errOvertaken: a producer behind the place has deleted it.
var errOvertaken = errors.New("another producer has taken the turn")

// putInTurn puts the items when it is the turn of a place in the producers' line and there
// is room for them.
func (q *Queue) putInTurn(ctx context.Context, items []queuelog.Item, with []any) error {
	ours := *q.producers
	ours.NamePlace = func(s *session.Session, uuid string) string { return Marked(s, uuid, len(items)) }
	for {
		err := ours.WithPlace(ctx, layout.KindLock, func(p *line.Place, guess *line.Guess) error {
			err := q.awaitRoom(ctx, p, guess, len(items))
			if err == nil {
				err = q.append(ctx, p.Session, p, items, with)
			}
			if errors.Is(err, errs.ErrEvicted) && mayBeOvertaken(p) {
				return errOvertaken
			}
			return err
		})
		if err != errOvertaken {
			return err
		}
	}
}

// awaitRoom returns when the place is the first in the line and the queue has room for n
// more items.
func (q *Queue) awaitRoom(ctx context.Context, p *line.Place, guess *line.Guess, n int) error {
	log := QueueIn(p.Session, q.Abs())
	w := &lineWait{p: p, guess: guess, passed: -1, patience: roomPatience}
	w.look = func(ctx context.Context, head layout.PlaceName) (string, []*zkconn.Watch, error) {
		count, segments, err := log.Count(ctx)
		if count+ItemsOf(head) > q.Opts.MaxLen {
			return "", segments, err
		}
		return "room", nil, err
	}
	for !p.HasTurn {
		ahead, err := w.await(ctx)
		if err == nil && len(ahead) > 0 {
			err = q.overtake(ctx, p, ahead)
		}
		if err != nil {
			return err
		}
	}
	for {
		count, segments, err := log.Count(ctx)
		switch {
		case errors.Is(err, queuelog.ErrStale):
			continue
		case err == nil && count+n <= q.Opts.MaxLen:
			return nil
		case err == nil:
			err = line.AwaitAny(ctx, p, segments, nil)
		}
		if err != nil {
			return err
		}
	}
}

// maxOvertaken bounds a transaction.
const maxOvertaken = 100

// overtake deletes the places ahead, of which p is behind (Q10). It does nothing if one of them has
// left: then its producer is alive. The nearest goes first: so if that producer is alive, it sees
// that its own place was deleted, and not that its turn has come.
func (q *Queue) overtake(ctx context.Context, p *line.Place, ahead []layout.PlaceName) error {
	run := ahead[max(0, len(ahead)-maxOvertaken):]
	var ops []any
	for _, m := range run {
		// To those behind, it leaves as with a put. Its own producer sees that it was
		// deleted by no operator.
		ops = append(ops, (&line.Place{PlaceName: m, Line: p.Line, Znode: hold.Znode{Session: p.Session, Path: p.Line.Abs() + "/" + m.Name}}).Deletion(true).Ops...)
	}
	o := p.Session.Multi(ctx, ops...)
	switch {
	case o.Applied():
		p.Line.Client.Log(slog.LevelWarn, "producers that left room unused were overtaken", "queue", q.Path, "places", len(run))
		p.HasTurn = len(run) == len(ahead)
	case o.Is(zk.ErrNoNode), o.Transient():
	case ctx.Err() != nil, o.SessionOver():
		return o.Err()
	default: // the servers refuse it
		return p.AwaitTurn(ctx, nil)
	}
	return nil
}

// mayBeOvertaken reports whether a producer behind the place may have deleted it, which is
// gone. An operator deletes a place without changing its data before. If the client has
// received neither event, it could be either.
func mayBeOvertaken(p *line.Place) bool {
	if p.Own == nil || !p.Own.HasFired() {
		return true
	}
	conn, changed := p.Own.Changed()
	return changed || !p.Own.ConfirmedOn(conn)
}

// The uuid of a place in the producers' line says what those behind it need to know: its
// session, and how many items it is for. The rest of the uuid is random.

// Marked returns the uuid with that.
func Marked(s *session.Session, uuid string, items int) string {
	h := fnv.New32a()
	fmt.Fprint(h, s.ID())
	return fmt.Sprintf("%08x-%04x-%s", h.Sum32(), min(items, math.MaxUint16), uuid[14:])
}

// SessionOf returns what tells the places of one session from those of others.
func SessionOf(m layout.PlaceName) string {
	if m.UUID == "" {
		return m.Name
	}
	return m.UUID[:8]
}

// ItemsOf returns how many items the producer puts.
func ItemsOf(m layout.PlaceName) int {
	if m.UUID == "" {
		return 0
	}
	n, _ := strconv.ParseInt(m.UUID[9:13], 16, 32)
	return int(n)
}
