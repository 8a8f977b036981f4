package queuelog

import (
	"context"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// counter is what a Log knows of the number of items. It keeps the count of each segment
// for as long as the watch on it has not fired.
type counter struct {
	fired zkconn.WatchSet
	mu    sync.Mutex
	items map[*zkconn.Watch]int
}

// Count returns how many items there are, and a channel that is closed once that may have
// changed. ErrStale is returned where the segments have changed on the way. The first Count
// reads every segment, and the next ones those that have changed.
func (l *Log) Count(ctx context.Context) (total int, changed <-chan struct{}, err error) {
	c := &l.counter
	changed = c.fired.Some() // before it is emptied
	c.mu.Lock()
	for _, w := range c.fired.Take() {
		delete(c.items, w)
	}
	c.mu.Unlock()
	err = l.Scan(ctx, func(_ int64, seg *zkconn.Watch) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, ok := c.items[seg]
		if !ok {
			n = len(Entries(seg.Children))
			c.items[seg] = n
			c.fired.Add(seg)
		}
		total += n
		return true
	})
	return total, changed, err
}
