package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Timeline draws what workers do: a table with a line for each stretch of time.
type Timeline struct {
	out   io.Writer
	began time.Time
	since time.Time // when the current stretch began
}

// NewTimeline prints the legend and the head of the table.
func NewTimeline(out io.Writer, legend, head string) *Timeline {
	now := time.Now()
	t := &Timeline{out: out, began: now, since: now}
	fmt.Fprintf(out, "%s\n\n   from      to   %s\n", legend, head)
	return t
}

// Begin begins a new stretch. What has passed since the last line is not drawn.
func (t *Timeline) Begin() { t.since = time.Now() }

// Due reports whether the current stretch is long enough for a line of its own.
// One that is not may become part of the next: waiters that are let go together
// are granted a millisecond apart.
func (t *Timeline) Due() bool { return time.Since(t.since) >= 20*time.Millisecond }

// Draw ends the current stretch and draws its line, and begins the next.
func (t *Timeline) Draw(row string) {
	now := time.Now()
	line := fmt.Sprintf("%7.2f %7.2f   %s", t.since.Sub(t.began).Seconds(), now.Sub(t.began).Seconds(), row)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
	t.since = now
}

// Letter returns the letter that stands for a worker: A for 0.
func Letter(worker int) string { return string(rune('A' + worker)) }

// Letters returns the letters of n workers, the heads of their columns.
func Letters(n int) []string {
	letters := make([]string, n)
	for i := range letters {
		letters[i] = Letter(i)
	}
	return letters
}
