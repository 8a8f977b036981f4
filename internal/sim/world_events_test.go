package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tally counts what befell.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// newTally returns one that has these at 0.
func newEventCounts(what ...string) *eventCounts {
	t := &eventCounts{counts: map[string]int{}}
	for _, what := range what {
		t.counts[what] = 0
	}
	return t
}

func (c *eventCounts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *eventCounts) addAll(n map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range n {
		c.counts[what] += n
	}
}

func (c *eventCounts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c.counts[what]))
	}
	return strings.Join(parts, ", ")
}
