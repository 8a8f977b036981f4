//go:build unix

package serve

import (
	"context"
	"time"
)

// publish renders what has changed and wakes the browsers' goroutines, until ctx ends. While
// there is no browser, it renders nothing.
func (h *hub) publish(ctx context.Context) {
	for sleep(ctx, publishGap) == nil {
		h.mu.Lock()
		now := time.Now()
		if cellNumber(now) != cellNumber(h.measured) { // rates and histories move on
			h.perSecond = float64(h.count.Swap(0)) / now.Sub(h.measured).Seconds()
			h.measured = now
			clear(h.changed) // lines that are gone would add up while there is no browser
			for path := range h.lines {
				h.touch(path)
			}
		}
		if h.browsers > 0 && (len(h.changed) > 0 || h.isDue(now)) {
			h.render(now)
		}
		h.mu.Unlock()
	}
}

// isDue reports whether it is time for another graph.
func (h *hub) isDue(now time.Time) bool { return h.moved && now.Sub(h.drawn) >= graphGap }

// render renders what has changed as another edition, and publishes that. The caller holds mu.
func (h *hub) render(now time.Time) {
	h.edition++
	if h.isDue(now) {
		h.draw(now)
	}
	for path := range h.changed {
		f := h.lines[path]
		if f == nil {
			continue
		}
		f.row.set(h.newRow(f, now), h.edition)
		if h.shown[path] > 0 {
			f.detail.set(newDetail(f, now), h.edition)
		}
	}
	clear(h.changed)
	close(h.next)
	h.next = make(chan struct{})
}

// draw renders the graph. The caller holds mu.
func (h *hub) draw(now time.Time) {
	h.moved, h.drawn = false, now
	g := h.newGraph()
	h.graph.set(g, h.edition)
	deadlocked := map[string]bool{}
	for _, d := range g.Deadlocks {
		for _, path := range d.Paths {
			deadlocked[path] = true
		}
	}
	for path := range h.lines {
		if deadlocked[path] != h.deadlocked[path] {
			h.touch(path)
		}
	}
	h.deadlocked = deadlocked
}
