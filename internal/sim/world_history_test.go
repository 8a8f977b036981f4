package sim

import (
	"maps"
	"slices"
	"sync"
)

// history is what there was of each K on the server, state by state. Before any change each was
// in the first one.
type history[K, S comparable] struct {
	first S

	mu     sync.Mutex
	states map[K][]S
	seen   map[reader[K]]S // what each saw last
}

// reader follows a K in a process.
type reader[K comparable] struct {
	process int
	of      K
}

func newHistory[K, S comparable](first S) *history[K, S] {
	return &history[K, S]{first: first, states: map[K][]S{}, seen: map[reader[K]]S{}}
}

// all returns the states, the oldest first. h.mu must be held.
func (h *history[K, S]) all(k K) []S {
	if h.states[k] == nil {
		h.states[k] = []S{h.first}
	}
	return h.states[k]
}

func (h *history[K, S]) add(k K, s S) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[k] = append(h.all(k), s)
}

// amend replaces the latest state.
func (h *history[K, S]) amend(k K, s S) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all(k)
	all[len(all)-1] = s
}

// now returns the latest state, and its number.
func (h *history[K, S]) now(k K) (s S, number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all(k)
	return all[len(all)-1], len(all) - 1
}

// find returns the number of the first state that was s, from one on, or -1.
func (h *history[K, S]) find(k K, s S, from int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.all(k)[from:], s)
	if i < 0 {
		return -1
	}
	return from + i
}

// saw checks what a reader sees next, in a state from one on, and returns that state's number.
func (h *history[K, S]) saw(w *world, process int, k K, s S, from int) (number int) {
	w.log.note("the reader of %v in client %d sees %v", k, process, s)
	number = h.find(k, s, from)
	switch {
	case number < 0:
		w.log.violation("%v: the reader in client %d sees %v, which was not so since state %d", k, process, s, from)
		_, number = h.now(k)
	case number > from:
		w.events.add("skipped")
	}
	w.events.add(map[bool]string{true: "seen none", false: "seen"}[s == h.first])
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[reader[K]{process, k}] = s
	return number
}

// checkSeen checks that the readers of a K have all seen a state last.
func (h *history[K, S]) checkSeen(w *world, k K, want S) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range w.clients {
		if got, ok := h.seen[reader[K]{i, k}]; !ok || got != want {
			w.log.violation("%v: at rest the reader in client %d has seen %v (anything: %v), and there is %v", k, i, got, ok, want)
		}
	}
}

// keys returns those of which there are states.
func (h *history[K, S]) keys() []K {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.states))
}
