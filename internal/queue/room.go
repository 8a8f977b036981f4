package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Producers of a bounded queue stand in a line of their own. Only the first one counts
// the items, and sleeps where there is no room. It leaves with its put, in one
// transaction, and the next one counts. So no put is carried out whose place is gone, and
// no two rely on the same count.
//
// A producer that dies at the head of the line would stop all others until its session
// expires. So the next ones, once they have waited for a while, count the items, too. If
// the first leaves the room that it needs unused for a grace, the next one deletes the places
// ahead, and is the first. A put of theirs that is under way fails then. A producer that
// was only slow joins again, at the end, and asks for more time.

const (
	// maxOvertaken is how many sessions a producer overtakes at once. The places of one
	// session are a process's: they die together. More would mean more producers that
	// count whenever an item is taken or acked.
	maxOvertaken = 2
	// maxOvertakenPlaces bounds a transaction.
	maxOvertakenPlaces = 100
)

// errOvertaken: a producer behind the place has deleted it.
var errOvertaken = errors.New("another producer has taken the turn")

// putInTurn puts the items when it is the turn of a place in the producers' line and there
// is room for them.
func (q *Queue) putInTurn(ctx context.Context, items []queuelog.Item, with []any) error {
	ours := *q.producers
	ours.Mark = func(s *session.Session, uuid string) string { return Marked(s, uuid, len(items)) }
	for {
		err := ours.WithPlace(ctx, placename.KindLock, nil, func(p *line.Place) error {
			err := q.awaitRoom(ctx, p, len(items))
			if err == nil {
				err = q.append(ctx, p.Session, p, items, with)
			}
			if errors.Is(err, errs.ErrEvicted) && mayBeOvertaken(p) {
				AskForPatience(p.Session)
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
func (q *Queue) awaitRoom(ctx context.Context, p *line.Place, n int) error {
	if !p.First {
		brief, cancel := context.WithTimeout(ctx, min(2*Grace+Grace*time.Duration(p.LineCount)/16, maxPatience))
		err := p.AwaitTurn(brief)
		tooLong := err != nil && brief.Err() != nil && ctx.Err() == nil
		cancel()
		if tooLong {
			o := &overtaking{q: q, p: p}
			err = o.await(ctx)
		}
		if err != nil {
			return err
		}
	}
	return q.waitForCapacity(ctx, p, n)
}

// overtaking is the wait of a producer that has lasted for a while.
type overtaking struct {
	q *Queue
	p *line.Place

	// rivals has the nearest place of each session ahead, the nearest first, as far as they
	// were looked at. nil: the line must be listed.
	rivals []rival
	// run has the places ahead, the nearest first. If there are more, it ends before the
	// last rival.
	run []placename.Parts
	// clear: there are no more, and the last one is the first in line.
	clear   bool
	refused bool
	// changed: there may be room that those ahead are about to use.
	changed bool
	// since is when they began to leave room unused, zero if they do not.
	since time.Time
}

type rival struct {
	placename.Parts
	watch *zkconn.PredecessorWatch
}

// await returns when the place is the first.
func (o *overtaking) await(ctx context.Context) error {
	for !o.p.First {
		gone := false
		var err error
		if o.rivals == nil {
			err = o.look(ctx)
		} else if gone, err = o.watch(ctx); err == nil && !gone {
			err = o.wait(ctx)
		}
		if err != nil {
			return err
		}
		if gone || !o.noteDepartures() {
			o.rivals = nil
		}
	}
	return nil
}

// look lists the places ahead.
func (o *overtaking) look(ctx context.Context) error {
	ms, err := o.p.Line.List(ctx, o.p.Session)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if !slices.ContainsFunc(ms, func(m placename.Parts) bool { return m.Name == o.p.Name }) {
		return o.p.WhyGone(ctx)
	}
	ahead := slices.DeleteFunc(ms, func(m placename.Parts) bool { return m.Compare(o.p.Parts) >= 0 })
	slices.SortFunc(ahead, func(a, b placename.Parts) int { return b.Compare(a) })
	o.rivals, o.run, o.clear, o.since = []rival{}, nil, true, time.Time{}
	o.p.First = len(ahead) == 0
	if !o.p.First {
		o.p.TellQueued(ctx, len(ahead))
	}
	for _, m := range ahead {
		// The clone does not keep the whole reply in memory.
		m, _ := placename.Parse(strings.Clone(m.Name), o.p.Line.Kinds)
		if !slices.ContainsFunc(o.rivals, func(r rival) bool { return SessionOf(r.Parts) == SessionOf(m) }) {
			o.rivals = append(o.rivals, rival{Parts: m})
			// Another call of the own session, which is alive, overtakes those ahead of it.
			if len(o.rivals) > maxOvertaken || SessionOf(m) == SessionOf(o.p.Parts) {
				o.clear = false
				break
			}
		}
		o.run = append(o.run, m)
	}
	return nil
}

// watch watches the rivals and the own place. gone: a rival has left.
func (o *overtaking) watch(ctx context.Context) (gone bool, err error) {
	for i := range o.rivals {
		r := &o.rivals[i]
		if r.watch != nil {
			continue
		}
		r.watch, err = o.p.Session.WatchPredecessor(ctx, o.p.Line.Abs()+"/"+r.Name)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, o.p.WatchOwn(ctx)
}

// wait overtakes the rivals if they have left room unused for long enough. Otherwise it
// waits until something has changed, or until they have.
func (o *overtaking) wait(ctx context.Context) error {
	switch {
	case !o.clear || o.refused:
		return o.sleep(ctx, nil)
	case o.changed:
		o.changed = false
		return o.pause(ctx, Grace)
	}
	log := QueueIn(o.p.Session, o.q.Abs())
	count, err := log.Count(ctx)
	switch {
	case errors.Is(err, queuelog.ErrStale), errors.Is(err, queuelog.ErrUnfinished):
		return nil
	case err != nil:
		return err
	case count+ItemsOf(o.run[len(o.run)-1]) > o.q.Opts.MaxLen:
		o.since, o.changed = time.Time{}, true
		return o.sleep(ctx, log.CountChanged())
	case o.since.IsZero():
		o.since = time.Now()
	}
	patience := time.Duration(0)
	for _, r := range o.rivals {
		patience += PatienceOf(r.Parts)
	}
	if left := patience - time.Since(o.since); left > 0 {
		return o.pause(ctx, left)
	}
	return o.overtake(ctx)
}

// sleep waits until a rival or the own place has changed, or other is closed.
func (o *overtaking) sleep(ctx context.Context, other <-chan struct{}) error {
	var watches []*zkconn.PredecessorWatch
	for _, r := range o.rivals {
		watches = append(watches, r.watch)
	}
	return line.AwaitAnyOr(ctx, o.p, watches, other)
}

// pause is sleep for a time.
func (o *overtaking) pause(ctx context.Context, d time.Duration) error {
	timer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return o.sleep(ctx, timer.Done())
}

// noteDepartures notes that a rival has left with its put: so nobody stands ahead of it,
// and those behind it get their time anew. It returns false if the line must be listed.
func (o *overtaking) noteDepartures() bool {
	for i, r := range o.rivals {
		switch {
		case r.watch == nil || !r.watch.HasFired():
			continue
		case r.watch.IsLost():
			o.rivals[i].watch = nil
			continue
		case !r.watch.IsReleased() || o.p.Own.HasFired():
			return false
		}
		if at := slices.Index(o.run, r.Parts); at >= 0 {
			o.run = o.run[:at]
		}
		o.rivals, o.clear, o.since, o.changed = o.rivals[:i], true, time.Time{}, true
		if i == 0 {
			o.p.First = true
		}
		return true
	}
	return o.rivals != nil
}

// overtake deletes the places ahead. It fails if one of them has left: then its producer is
// alive. The nearest goes first: so if that producer is alive, it sees that its own place was
// deleted, and not that its turn has come.
func (o *overtaking) overtake(ctx context.Context) error {
	p := o.p
	run := o.run[max(0, len(o.run)-maxOvertakenPlaces):]
	var ops []any
	for _, m := range run {
		// To those behind, it leaves as with a put. Its own producer sees that it was
		// deleted by no operator.
		ops = append(ops, (&line.Place{Parts: m, Line: p.Line, Session: p.Session, Path: p.Line.Abs() + "/" + m.Name}).Departure(true).Ops...)
	}
	outcome := p.Session.Multi(ctx, ops...)
	switch {
	case outcome.Applied():
		p.Line.Client.Log(slog.LevelWarn, "producers that left room unused were overtaken", "queue", o.q.Path, "places", len(run))
		if p.First = len(run) == len(o.run); p.First {
			return nil
		}
	case outcome.Is(zk.ErrNoNode), outcome.Transient():
	case ctx.Err() != nil, outcome.SessionOver():
		return outcome.Err()
	default:
		o.refused = true
	}
	o.rivals = nil
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
// session, how many items it is for, and the level of the time that it asks for. The rest of
// the uuid is random.

// Marked returns the uuid with that.
func Marked(s *session.Session, uuid string, items int) string {
	h := fnv.New32a()
	fmt.Fprint(h, s.ID())
	return fmt.Sprintf("%08x-%04x-%c%x%s", h.Sum32(), min(items, math.MaxUint16), uuid[14], queuesIn(s).level.Load(), uuid[16:])
}

// SessionOf returns what tells the places of one session from those of others.
func SessionOf(m placename.Parts) string {
	if m.UUID == "" {
		return m.Name
	}
	return m.UUID[:8]
}

// ItemsOf returns how many items the producer puts.
func ItemsOf(m placename.Parts) int { return int(bits(m, 9, 13)) }

// PatienceOf returns for how long the producer may leave room unused.
func PatienceOf(m placename.Parts) time.Duration { return patience(min(bits(m, 15, 16), maxLevel)) }

func bits(m placename.Parts, from, to int) int64 {
	if m.UUID == "" {
		return 0
	}
	n, _ := strconv.ParseInt(m.UUID[from:to], 16, 64)
	return n
}

const maxLevel = 6 // 4 hours

func patience(level int64) time.Duration { return Grace << (3 * level) }

// AskForPatience is for a session of which a place was overtaken: others are faster. Its next
// places ask for eight times as much, up to the session timeout or a little more.
func AskForPatience(s *session.Session) {
	asked := &queuesIn(s).level
	if level := asked.Load(); level < maxLevel && patience(level) < s.Timeout() {
		asked.CompareAndSwap(level, level+1)
	}
}
