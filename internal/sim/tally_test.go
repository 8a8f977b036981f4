package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tally counts what befell.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

// newTally returns one that has these at 0.
func newTally(what ...string) *tally {
	t := &tally{n: map[string]int{}}
	for _, what := range what {
		t.n[what] = 0
	}
	return t
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[what]++
}

func (t *tally) addAll(n map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for what, n := range n {
		t.n[what] += n
	}
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.n)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, t.n[what]))
	}
	return strings.Join(parts, ", ")
}
