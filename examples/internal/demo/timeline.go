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

// NewTimeline prints the legend and the heads of the table's columns, with a note
// behind them.
func NewTimeline(out io.Writer, legend string, heads []string, note string) *Timeline {
	now := time.Now()
	t := &Timeline{out: out, began: now, since: now}
	fmt.Fprintf(out, "%s\n\n", legend)
	t.line("   from", "     to", heads, note)
	return t
}

// Begin begins a new stretch. What has passed since the last line is not drawn.
func (t *Timeline) Begin() { t.since = time.Now() }

// Due reports whether the current stretch is long enough for a line of its own.
// One that is not may become part of the next: waiters that are let go together
// are granted a millisecond apart.
func (t *Timeline) Due() bool { return time.Since(t.since) >= 20*time.Millisecond }

// Draw ends the current stretch and draws its line, and begins the next.
func (t *Timeline) Draw(cells []string, format string, args ...any) {
	now := time.Now()
	seconds := func(at time.Time) string { return fmt.Sprintf("%7.2f", at.Sub(t.began).Seconds()) }
	t.line(seconds(t.since), seconds(now), cells, fmt.Sprintf(format, args...))
	t.since = now
}

func (t *Timeline) line(from, to string, cells []string, note string) {
	line := fmt.Sprintf("%s %s   %s   %s", from, to, strings.Join(cells, " "), note)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
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
