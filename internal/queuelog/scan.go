package queuelog

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// IsSealed reports whether another segment follows the one of that Stat.
func IsSealed(stat *zk.Stat) bool { return stat.Version > 0 }

// Scan calls f with the segments, from the oldest to the open one, until f returns
// false. seg is a watch on the segment's children, which has the listing: a segment that has
// not changed since the session's last scan is not listed again. ErrStale is returned where
// the segments have changed on the way.
func (l *Log) Scan(ctx context.Context, f func(n int64, seg *zkconn.Watch) (more bool)) error {
	if err := l.learn(ctx); err != nil {
		return err
	}
	for n := int64(-1); ; {
		known, ok := l.after(n)
		if !ok {
			return ErrStale
		}
		n = known.number
		seg, err := l.visit(ctx, known)
		if err != nil {
			return err
		}
		if !f(n, seg) || !IsSealed(&seg.Stat) {
			return nil
		}
	}
}

// visit lists a known segment. ErrStale: it is gone, or another one.
func (l *Log) visit(ctx context.Context, known segment) (*zkconn.Watch, error) {
	w, err := l.s.WatchChildren(ctx, l.Segment(known.number))
	switch {
	case errors.Is(err, zk.ErrNoNode): // others have emptied it, or somebody has deleted it
		l.mu.Lock()
		l.known = nil
		l.mu.Unlock()
		if known.guessed {
			return nil, cmp.Or(l.repair(ctx), ErrStale)
		}
		return nil, ErrStale
	case err != nil:
		return nil, err
	case !l.saw(known.number, &w.Stat):
		return nil, ErrStale
	}
	if !IsSealed(&w.Stat) { // a consumer that sleeps has to look for older segments, which may be back
		w.FireInNewHistory()
	}
	return w, nil
}

// Delete deletes a segment that is sealed and empty, and so stays that (Q5 of package queue). On any
// error the segment is left to the next caller.
//
// Data that somebody sets on a sealed segment raise its version and fire no watch. Any
// version above 0 will do: the segment of that number is sealed, whichever it is.
func (l *Log) Delete(ctx context.Context, n int64, seg *zk.Stat) {
	version := seg.Version
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
			l.drop(n, seg.Czxid)
		}
		return
	}
}
