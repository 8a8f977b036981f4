package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// eventCounts counts the faults and situations that occurred, by name.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// newEventCounts returns counts in which these events stand at 0.
func newEventCounts(events ...string) *eventCounts {
	c := &eventCounts{counts: map[string]int{}}
	for _, event := range events {
		c.counts[event] = 0
	}
	return c
}

func (c *eventCounts) add(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[event]++
}

func (c *eventCounts) addAll(counts map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for event, n := range counts {
		c.counts[event] += n
	}
}

func (c *eventCounts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, event := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", event, c.counts[event]))
	}
	return strings.Join(parts, ", ")
}
