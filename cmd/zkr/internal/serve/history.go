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
	number   int64 // of the interval since 1970; another one's numbers are out of date
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

// at returns the cell of a time, emptied if it was another interval's.
func (h *history) at(t time.Time) *cell {
	n := cellNumber(t)
	c := &h.cells[n%cells]
	if c.number != n {
		*c = cell{number: n}
	}
	return c
}

// acquire counts n acquisitions.
func (h *history) acquire(now time.Time, n int) {
	if n > 0 {
		h.at(now).acquired += n
	}
}

// wait counts how long one of the acquisitions has waited, or n of them.
func (h *history) wait(now time.Time, waited time.Duration, n int) {
	if n <= 0 {
		return
	}
	c := h.at(now)
	if c.waits == nil {
		c.waits = new([classes]uint32)
	}
	c.waits[classOf(waited)] += uint32(n)
}

func (h *history) sawLength(now time.Time, n int) {
	c := h.at(now)
	c.length = max(c.length, n)
}

func classOf(d time.Duration) int {
	if d <= firstClass {
		return 0
	}
	class := math.Log(float64(d)/float64(firstClass)) / math.Log(widening)
	return min(classes-1, int(math.Ceil(class-1e-9)))
}

// upTo returns the upper end of a class, in seconds.
func upTo(class int) float64 { return firstClass.Seconds() * math.Pow(widening, float64(class)) }

// p99 returns the upper end of the class in which the 99th percentile is.
func p99(waits *[classes]uint32) *float64 {
	var n uint64
	for _, count := range waits {
		n += uint64(count)
	}
	if n == 0 {
		return nil
	}
	rest := n / 100 // so many are above it
	for class := classes - 1; ; class-- {
		if count := uint64(waits[class]); count > rest {
			p := upTo(class)
			if class == 0 {
				p = 0 // shorter than can be told
			}
			return &p
		} else {
			rest -= count
		}
	}
}

// points returns the cells, the oldest first. The last one is still filling.
func (h *history) points(now time.Time) []point {
	points := make([]point, 0, cells)
	last := cellNumber(now)
	for n := last - cells + 1; n <= last; n++ {
		c := h.cells[n%cells]
		if c.number != n {
			points = append(points, point{})
			continue
		}
		p := point{Rate: float64(c.acquired) / cellTime.Seconds(), Length: c.length}
		if c.waits != nil {
			p.P99 = p99(c.waits)
		}
		points = append(points, p)
	}
	return points
}

// rate returns the acquisitions a second in the last minute and in the cell that is filling.
func (h *history) rate(now time.Time) float64 {
	n, last := 0, cellNumber(now)
	for i := last - 6; i <= last; i++ {
		if c := h.cells[i%cells]; c.number == i {
			n += c.acquired
		}
	}
	filling := now.Sub(time.Unix(last*int64(cellTime/time.Second), 0))
	return float64(n) / (6*cellTime + filling).Seconds()
}

// waits returns the 99th percentile of the waits in all cells.
func (h *history) waits(now time.Time) *float64 {
	var all [classes]uint32
	last := cellNumber(now)
	for _, c := range h.cells {
		if c.waits != nil && c.number > last-cells {
			for i, n := range c.waits {
				all[i] += n
			}
		}
	}
	return p99(&all)
}
