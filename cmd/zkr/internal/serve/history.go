//go:build unix

package serve

import (
	"math"
	"time"
)

// A history has 15 minutes of cells of 10 seconds each. Cells in which nothing happened have no
// histogram, so that an idle line's history is small.
const (
	cellTime = 10 * time.Second
	cells    = 90
)

// Waits are counted in classes, each half as wide again as the one before: from 10 ms to 3 h.
const (
	classes    = 36
	firstClass = 10 * time.Millisecond
	widening   = 1.5
)

// history is what happened in a line, or in all of them.
type history struct {
	cells [cells]cell
}

// cell is what happened in one interval.
type cell struct {
	number   int64 // of the interval since 1970; those of another one are out of date
	acquired int
	waits    *[classes]uint32
	length   int // of a queue, the largest that was seen
}

// point is a cell as the page gets it.
type point struct {
	Rate   float64  `json:"rate"`          // acquisitions a second
	P99    *float64 `json:"p99,omitempty"` // of their waits, in seconds
	Length int      `json:"len,omitempty"`
}

func cellNumber(t time.Time) int64 { return t.Unix() / int64(cellTime/time.Second) }

// last returns the last n cells, the oldest first. The last one is still filling.
func (h *history) last(now time.Time, n int64) (last []*cell) {
	for number := cellNumber(now) - n + 1; number <= cellNumber(now); number++ {
		c := &h.cells[number%cells]
		if c.number != number {
			*c = cell{number: number}
		}
		last = append(last, c)
	}
	return last
}

// filling returns the last cell.
func (h *history) filling(now time.Time) *cell { return h.last(now, 1)[0] }

// add counts what has happened.
func (h *history) add(now time.Time, happened change) {
	c := h.filling(now)
	c.acquired += happened.acquired
	if happened.atOnce+len(happened.waits) == 0 {
		return
	}
	if c.waits == nil {
		c.waits = new([classes]uint32)
	}
	c.waits[0] += uint32(happened.atOnce)
	for _, waited := range happened.waits {
		c.waits[classOf(waited)]++
	}
}

func (h *history) sawLength(now time.Time, n int) {
	c := h.filling(now)
	c.length = max(c.length, n)
}

// classOf returns the first class that ends no earlier.
func classOf(d time.Duration) (class int) {
	for class < classes-1 && upTo(class) < d.Seconds() {
		class++
	}
	return class
}

// upTo returns the upper end of a class, in seconds.
func upTo(class int) float64 { return firstClass.Seconds() * math.Pow(widening, float64(class)) }

// p99 returns the upper end of the class in which the 99th percentile is, and nil if there is none.
func p99(waits *[classes]uint32) *float64 {
	if waits == nil {
		return nil
	}
	var n uint64
	for _, count := range waits {
		n += uint64(count)
	}
	above := uint64(0)
	for class := classes - 1; class >= 0; class-- {
		if above += uint64(waits[class]); above <= n/100 {
			continue
		}
		p := upTo(class)
		if class == 0 {
			p = 0 // shorter than can be told
		}
		return &p
	}
	return nil
}

// points returns the cells for the page.
func (h *history) points(now time.Time) (points []point) {
	for _, c := range h.last(now, cells) {
		points = append(points, point{Rate: float64(c.acquired) / cellTime.Seconds(), P99: p99(c.waits), Length: c.length})
	}
	return points
}

// rate returns the acquisitions a second in the last minute and in the cell that is filling.
func (h *history) rate(now time.Time) float64 {
	n := 0
	for _, c := range h.last(now, 7) {
		n += c.acquired
	}
	return float64(n) / (6*cellTime + now.Sub(now.Truncate(cellTime))).Seconds()
}

// waits returns the 99th percentile of the waits in all cells.
func (h *history) waits(now time.Time) *float64 {
	var all [classes]uint32
	for _, c := range h.last(now, cells) {
		if c.waits != nil {
			for i, n := range c.waits {
				all[i] += n
			}
		}
	}
	return p99(&all)
}
