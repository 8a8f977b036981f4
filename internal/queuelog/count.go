package queuelog

import (
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// counter is what a Log knows of the number of items. It keeps the count of each segment
// with the watch on it, and reads only the segments whose watches have fired. So a count
// costs the same whatever the backlog is.
type counter struct {
	turn  chan struct{} // holds a value while a count is under way
	fired zkconn.WatchSet

	// The fields below belong to the count that is under way.

	// items has what was counted, by the watch. A count stays when the segments are
	// listed anew, for as long as its watch has not fired.
	items   map[*zkconn.Watch]segmentCount
	lists   int                     // Log.lists at the last count
	counted map[int64]*zkconn.Watch // the segments that total includes, by number
	total   int
	changed []int64 // segments to be counted again, ascending
	last    int64   // the highest segment that was counted, -1: none
}

type segmentCount struct {
	number int64
	items  int
}

func newCounter() *counter {
	return &counter{turn: make(chan struct{}, 1), items: map[*zkconn.Watch]segmentCount{}}
}

// CountChanged returns a channel that is closed once the next Count may differ from the
// last one, because a segment has changed. Consumers take from the first segment with a
// free item, but operators delete items anywhere.
func (l *Log) CountChanged() <-chan struct{} { return l.counter.fired.Some() }

// ErrUnfinished is returned by Count when it has read many new segments; count again.
var ErrUnfinished = errors.New("there are more segments")

// maxFresh is how many new segments a Count reads. While others fill segments as fast as a
// distant caller reads them, the count does not end, and the caller may want to know.
const maxFresh = 32

// Count returns how many items there are. ErrStale is returned where the segments have
// changed on the way. The first Counts read every segment. The next ones read those that
// have changed.
func (l *Log) Count(ctx context.Context) (int, error) {
	c := l.counter
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return 0, l.s.ContextErr(ctx)
	}
	if err := l.learn(ctx); err != nil {
		return 0, err
	}
	c.update(l.listed())
	if err := l.countChanged(ctx); err != nil {
		if err != ErrUnfinished {
			c.lists = 0 // the next one begins at the first segment
		}
		return 0, err
	}
	return c.total, nil
}

// update takes the segments whose watches have fired out of the count, and all of them if
// the segments were listed anew.
func (c *counter) update(lists int) {
	if c.lists != lists {
		c.lists, c.counted, c.total, c.changed, c.last = lists, map[int64]*zkconn.Watch{}, 0, nil, -1
	}
	for _, w := range c.fired.Take() {
		seg := c.items[w]
		delete(c.items, w)
		if c.counted[seg.number] == w {
			delete(c.counted, seg.number)
			c.total -= seg.items
			c.changed = append(c.changed, seg.number)
		}
	}
	slices.Sort(c.changed)
}

// countChanged counts the segments that have changed, and those behind the last one.
func (l *Log) countChanged(ctx context.Context) error {
	c := l.counter
	gone := false // the segment before
	for fresh := 0; ; {
		seg, last, ok := l.nextChanged()
		if !ok {
			if w := c.counted[c.last]; w != nil && !isSealed(&w.Stat) {
				return l.stillCounted()
			}
			if seg, last, ok = l.after(c.last); !ok {
				return ErrStale
			}
			if fresh == maxFresh {
				return ErrUnfinished
			}
			l.readAhead(seg.number, fresh)
			fresh++
		}
		listing, err := l.visit(ctx, seg, true, gone || last)
		if err != nil {
			return err
		}
		if gone = listing == nil; !gone {
			c.add(seg.number, listing.Watch)
		}
	}
}

// stillCounted returns ErrStale if a Scan has had the segments listed again since the
// count began. Then a segment to be counted again may have been passed over, because it
// was not known for a moment.
func (l *Log) stillCounted() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists != l.counter.lists || len(l.known) == 0 {
		return ErrStale
	}
	return nil
}

// readAhead starts to read segments behind the nth where several were new: others fill them
// faster than one after the other can be read over a long way. fresh is how many were new
// so far.
func (l *Log) readAhead(n int64, fresh int) {
	if fresh < 2 {
		return
	}
	for i := range min(int64(fresh), maxWindow) {
		l.s.StartWatchChildren(l.Segment(n + 1 + i))
	}
}

// nextChanged returns the next one of the known segments that must be counted again.
func (l *Log) nextChanged() (seg segment, last, ok bool) {
	c := l.counter
	for len(c.changed) > 0 {
		n := c.changed[0]
		c.changed = c.changed[1:]
		if seg, last, ok = l.after(n - 1); ok && seg.number == n {
			return seg, last, true
		}
	}
	return segment{}, false, false
}

// add counts a segment.
func (c *counter) add(n int64, w *zkconn.Watch) {
	seg, ok := c.items[w]
	if !ok {
		seg = segmentCount{n, len(Entries(w.Children))}
		c.items[w] = seg
		c.fired.Add(w)
	}
	c.counted[n] = w
	c.total += seg.items
	c.last = max(c.last, n)
}

// listed returns how often the segments were listed.
func (l *Log) listed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists
}
