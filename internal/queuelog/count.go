package queuelog

import (
	"context"
	"maps"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// counter is what a Log knows of the number of items. It keeps the count of each segment
// for as long as the watch on it has not fired.
type counter struct {
	mu    sync.Mutex
	items map[*zkconn.Watch]int
}

// Count returns how many items there are, and a watch on each segment. One of them fires once the number
// may have changed. ErrStale is returned where the segments have changed on the way. The first Count
// reads every segment, and the next ones those that have changed.
func (l *Log) Count(ctx context.Context) (total int, segments []*zkconn.Watch, err error) {
	c := &l.counter
	c.mu.Lock()
	maps.DeleteFunc(c.items, func(w *zkconn.Watch, _ int) bool { return w.HasFired() })
	c.mu.Unlock()
	err = l.Scan(ctx, func(_ int64, seg *zkconn.Watch) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, ok := c.items[seg]
		if !ok {
			n = len(Entries(seg.Children))
			c.items[seg] = n
		}
		total += n
		segments = append(segments, seg)
		return true
	})
	return total, segments, err
}
