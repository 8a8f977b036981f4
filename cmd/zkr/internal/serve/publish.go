//go:build unix

package serve

import (
	"context"
	"strings"
	"time"
)

// publish renders what has changed and wakes the browsers' goroutines, until ctx ends. While
// there is no browser, it renders nothing.
func (h *hub) publish(ctx context.Context) {
	var drawn time.Time // the last graph
	cell, counted, at := cellNumber(time.Now()), int64(0), time.Now()
	for sleep(ctx, publishGap) == nil {
		now := time.Now()
		if n := cellNumber(now); n != cell { // rates and histories move on
			reads := h.count.Load()
			h.mu.Lock()
			h.perSecond = float64(reads-counted) / now.Sub(at).Seconds()
			for path := range h.lines {
				h.touch(path)
			}
			h.mu.Unlock()
			cell, counted, at = n, reads, now
		}
		h.mu.Lock()
		if h.browsers > 0 && (len(h.changed) > 0 || h.moved) {
			if h.moved && now.Sub(drawn) >= graphGap {
				drawn = now
				h.draw()
			}
			h.render(now)
		}
		h.mu.Unlock()
	}
}

// draw renders the graph. The caller holds mu.
func (h *hub) draw() {
	h.moved = false
	g := h.newGraph()
	h.graph.set(g, h.edition+1)
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

// render renders what has changed as another edition, and publishes that. The caller holds mu.
func (h *hub) render(now time.Time) {
	h.edition++
	for path := range h.changed {
		f := h.lines[path]
		if f == nil {
			continue
		}
		f.row.set(h.newRow(f, now), h.edition)
		if h.shown[path] > 0 {
			f.detail.set(h.newDetail(f, now), h.edition)
		}
		if queue, isDead := strings.CutSuffix(path, "-dead"); isDead && h.lines[queue] != nil && !h.changed[queue] {
			h.lines[queue].row.set(h.newRow(h.lines[queue], now), h.edition)
		}
	}
	clear(h.changed)
	close(h.next)
	h.next = make(chan struct{})
}

// news returns a channel that is closed when another edition is published.
func (h *hub) news() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}
