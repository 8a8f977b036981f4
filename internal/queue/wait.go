package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Consumers stand in a line, and so do the producers of a bounded queue. Only the first in line
// acts, so that an event wakes one. If it is dead, the others do not wait until its session
// expires: the next two look for what the first leaves unused, too, once they have waited for
// ItemPatience. What stays unused one of them uses.

const (
	// ItemPatience is for how long a consumer that is the first in line may leave an item unused.
	ItemPatience = 300 * time.Millisecond
	// Lookers is how many sessions look: the first in line, and the next ones. Things go on
	// unless as many are dead.
	Lookers = 3
	// roomPatience is for how long a producer that is the first in line may leave room unused. It
	// counts the items before it puts, over a long way.
	roomPatience = time.Second
)

// lineWait is a wait in a line.
type lineWait struct {
	p     *line.Place
	guess *line.Guess
	// look returns what the first in line, head, could use, empty for nothing. Then one of the
	// watches fires once that may have changed.
	look func(ctx context.Context, head layout.PlaceName) (unused string, watches []*zkconn.Watch, err error)
	// passed is the number of the last place that left something unused, -1 without one. It
	// counts no more.
	passed int32
	// long: it has lasted for ItemPatience.
	long bool

	// patience is for how long the first in line may leave something unused.
	patience time.Duration

	// rivals has the nearest place of each session ahead, the nearest first. Without any, the
	// line must be listed.
	rivals []rival
	// far: there are more ahead than those who look, or the last rival is another place of the
	// own session, which looks. This place does not look until one of the rivals has left.
	far  bool
	head layout.PlaceName
	// unused is what the head leaves unused, and since when.
	unused string
	since  time.Time
	// changed: there may be something that those ahead are about to use.
	changed bool
}

type rival struct {
	layout.PlaceName
	watch *zkconn.PredecessorWatch
}

// await returns when the place is the first in line, or when the first one has left unused
// what look finds. Then it returns the places ahead, the nearest first.
func (w *lineWait) await(ctx context.Context) (ahead []layout.PlaceName, err error) {
	if w.p.Number <= w.passed { // the line has been made anew
		w.passed = -1
	}
	if !w.p.HasTurn && w.passed < 0 && !w.long {
		w.long = true
		brief, cancel := context.WithTimeout(ctx, ItemPatience)
		err := w.p.AwaitTurn(brief, w.guess)
		tooLong := brief.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !tooLong {
			return nil, err
		}
	}
	for !w.p.HasTurn {
		if len(w.rivals) == 0 {
			_, err = w.list(ctx)
		} else if ahead, err = w.step(ctx); len(ahead) > 0 {
			return ahead, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// list lists the places ahead.
func (w *lineWait) list(ctx context.Context) (ahead []layout.PlaceName, err error) {
	ms, err := w.p.Line.List(ctx, w.p.Session)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	if !slices.ContainsFunc(ms, func(m layout.PlaceName) bool { return m.Name == w.p.Name }) {
		return nil, w.p.WhyGone(ctx)
	}
	ahead = slices.DeleteFunc(ms, func(m layout.PlaceName) bool { return m.Compare(w.p.PlaceName) >= 0 || m.Number <= w.passed })
	slices.SortFunc(ahead, func(a, b layout.PlaceName) int { return b.Compare(a) })
	w.rivals = nil
	if w.p.HasTurn = len(ahead) == 0; w.p.HasTurn {
		return nil, nil
	}
	w.p.TellQueued(ctx, len(ahead))
	for _, m := range ahead {
		if slices.ContainsFunc(w.rivals, func(r rival) bool { return SessionOf(r.PlaceName) == SessionOf(m) }) {
			continue
		}
		w.rivals = append(w.rivals, rival{PlaceName: w.copied(m)})
		if w.far = len(w.rivals) == Lookers || SessionOf(m) == SessionOf(w.p.PlaceName); w.far {
			break
		}
	}
	w.head = w.copied(ahead[len(ahead)-1])
	w.p.Line.Client.Log(slog.LevelDebug, "place waits in the line of a queue", "session", w.p.Session.Name(), "place", w.p.Path,
		"predecessor", w.rivals[0].Name, "first", w.head.Name, "looks", !w.far)
	return ahead, nil
}

// copied returns a copy that does not keep the whole listing in memory.
func (w *lineWait) copied(m layout.PlaceName) layout.PlaceName {
	m, _ = layout.ParsePlace(strings.Clone(m.Name), w.p.Line.Kinds)
	return m
}

// step waits until something has changed that the place waits for. It returns the places ahead
// if the first one has left something unused for too long.
func (w *lineWait) step(ctx context.Context) (ahead []layout.PlaceName, err error) {
	watches, err := w.watchRivals(ctx)
	if err != nil || len(w.rivals) == 0 {
		return nil, err
	}
	if w.far {
		return nil, w.sleep(ctx, watches, nil)
	}
	if w.changed {
		w.changed = false
		return nil, w.pause(ctx, watches, ItemPatience)
	}
	unused, more, err := w.look(ctx, w.head)
	switch {
	case errors.Is(err, queuelog.ErrStale):
		return nil, nil
	case err != nil:
		return nil, err
	case unused == "":
		w.unused, w.changed = "", true
		for _, m := range more {
			watches = append(watches, m)
		}
		return nil, w.sleep(ctx, watches, nil)
	case unused != w.unused:
		w.unused, w.since = unused, time.Now()
		w.p.Line.Client.Log(slog.LevelDebug, "first in the line of a queue leaves something unused", "session", w.p.Session.Name(), "place", w.p.Path,
			"first", w.head.Name, "unused", unused)
	}
	if left := w.patience - time.Since(w.since); left > 0 {
		return nil, w.pause(ctx, watches, left)
	}
	head := w.head.Name
	if ahead, err = w.list(ctx); err == nil && len(ahead) > 0 && w.head.Name != head { // another one has had no time yet
		ahead = nil
	}
	w.unused = ""
	return ahead, err
}

// watchRivals watches the place itself and the one right ahead. While it does not look, it watches all
// rivals: when any of them leaves, it may have to look. If one of them has gone, there are no rivals any
// more.
func (w *lineWait) watchRivals(ctx context.Context) (watches []line.Notifier, err error) {
	for i := range w.rivals {
		r := &w.rivals[i]
		if i > 0 && !w.far {
			break
		}
		if r.watch == nil {
			r.watch, err = w.p.Session.WatchPredecessor(ctx, w.p.Line.Abs()+"/"+r.Name)
			if errors.Is(err, zk.ErrNoNode) {
				w.rivals = nil
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
		}
		watches = append(watches, r.watch)
	}
	return watches, w.p.WatchOwn(ctx)
}

// sleep waits until one of the watches fires, or something is received from other. It notes
// which places have left. One that left as the first passed the turn on to the next.
func (w *lineWait) sleep(ctx context.Context, watches []line.Notifier, other <-chan struct{}) error {
	if err := line.AwaitAny(ctx, w.p, watches, other); err != nil {
		return err
	}
	for i := range w.rivals {
		r := &w.rivals[i]
		switch {
		case r.watch == nil || !r.watch.HasFired():
			continue
		case r.watch.IsLost():
			r.watch = nil
			continue
		}
		w.p.HasTurn = i == 0 && r.watch.IsReleased() && !w.p.Own.HasFired()
		w.p.Line.Client.Log(slog.LevelDebug, "predecessor of a place has left", "session", w.p.Session.Name(), "place", w.p.Path, "predecessor", r.Name,
			"released", w.p.HasTurn, "watch_lost", false, "zxid", r.watch.Event().Zxid)
		w.rivals, w.unused, w.changed = nil, "", true
		return nil
	}
	return nil
}

// pause is sleep for a time.
func (w *lineWait) pause(ctx context.Context, watches []line.Notifier, d time.Duration) error {
	timer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return w.sleep(ctx, watches, timer.Done())
}
