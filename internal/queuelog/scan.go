package queuelog

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Listing is what a segment holds.
type Listing struct {
	Children []string
	Stat     *zk.Stat
	Watch    *zkconn.Watch // on the children; nil if the scan sets none
	// Unchanged: the Watch has not fired since Rest was called. Children and Stat are not set.
	Unchanged bool
}

// IsSealed reports whether another segment follows.
func (l *Listing) IsSealed() bool { return isSealed(l.Stat) }

func isSealed(stat *zk.Stat) bool { return stat.Version > 0 }

// Scan calls f with the segments, from the oldest to the open one, until f returns
// false. It sets a watch on each segment's children if watch is true. ErrStale is returned
// where the segments have changed on the way.
//
// It leaves out the first skip segments that do not rest, as far as others follow. A sealed
// segment for which f called Rest is not listed again until it changes: items that are taken
// for long keep many.
func (l *Log) Scan(ctx context.Context, skip int, watch bool, f func(n int64, seg *Listing) (more bool)) error {
	if err := l.learn(ctx); err != nil {
		return err
	}
	gone := false // the segment before
	for n := int64(-1); ; {
		seg, last, ok := l.after(n)
		if !ok {
			return ErrStale
		}
		n = seg.number
		switch w := seg.rests; {
		case last:
		case w != nil && !w.HasFired():
			gone = false
			if !f(n, &Listing{Watch: w, Unchanged: true}) {
				return nil
			}
			continue
		case skip > 0:
			gone = false
			skip--
			continue
		}
		listing, err := l.visit(ctx, seg, watch || seg.dull, gone || last)
		if err != nil {
			return err
		}
		if gone = listing == nil; gone {
			continue
		}
		if !f(n, listing) || !listing.IsSealed() {
			return nil
		}
	}
}

// Rest notes that a sealed segment has nothing that a scan looks for. Without a Watch the
// next scan sets one.
func (l *Log) Rest(n int64, seg *Listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(n); i < len(l.known) && l.known[i].number == n {
		l.known[i].dull, l.known[i].rests = true, seg.Watch
	}
}

// StartFirst begins to set the watch that a Scan sets first.
func (l *Log) StartFirst() {
	if seg, _, ok := l.after(-1); ok {
		l.s.StartWatchChildren(l.Segment(seg.number))
	}
}

// visit lists a known segment, or returns nil if the segment is gone. relist: a segment
// that is gone means that all must be listed again.
func (l *Log) visit(ctx context.Context, seg segment, watch, relist bool) (*Listing, error) {
	listing, err := l.listSegment(ctx, seg.number, watch)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, l.passGone(ctx, seg, relist)
	case err != nil:
		return nil, err
	case !l.saw(seg.number, listing.Stat):
		return nil, ErrStale
	}
	return listing, nil
}

func (l *Log) listSegment(ctx context.Context, n int64, watch bool) (*Listing, error) {
	if !watch {
		names, stat, err := l.s.Children(ctx, l.Segment(n))
		return &Listing{Children: names, Stat: stat}, err
	}
	w, err := l.s.WatchChildren(ctx, l.Segment(n))
	if err != nil {
		return nil, err
	}
	if !isSealed(&w.Stat) { // a consumer that sleeps has to look for older segments, which may be back
		w.FireInNewHistory()
	}
	return &Listing{Children: w.Children, Stat: &w.Stat, Watch: w}, nil
}

// passGone drops a known segment that is gone, or returns ErrStale if all must be
// listed again.
func (l *Log) passGone(ctx context.Context, seg segment, relist bool) error {
	if relist {
		l.forget()
		if seg.guessed {
			if err := l.repair(ctx); err != nil {
				return err
			}
		}
		return ErrStale
	}
	// Others have emptied it. A listing of all segments is long where the backlog is
	// long. The next one is known, if the queue is the same.
	same, err := l.isSame(ctx)
	if err != nil {
		return err
	}
	if !same {
		l.forgetQueue()
		return ErrStale
	}
	l.drop(seg)
	return nil
}

// Delete deletes a segment that is sealed and empty, and so stays that. On any
// error the segment is left to the next caller.
//
// Data that somebody sets on a sealed segment raise its version and fire no watch. Any
// version above 0 will do: the segment of that number is sealed, whichever it is.
func (l *Log) Delete(ctx context.Context, n int64, seg *Listing) {
	version := seg.Stat.Version
	for range zkconn.MaxTries {
		err := l.s.Multi(ctx, &zk.DeleteRequest{Path: l.Segment(n), Version: version}).Err()
		if errors.Is(err, zk.ErrBadVersion) {
			_, stat, err := l.s.Get(ctx, l.Segment(n))
			if err != nil || stat.Version == 0 { // gone, or made anew
				return
			}
			version = stat.Version
			continue
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			if known, _, ok := l.after(n - 1); ok && known.number == n && known.czxid == seg.Stat.Czxid {
				l.drop(known)
			}
		}
		return
	}
}
