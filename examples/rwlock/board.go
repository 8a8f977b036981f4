package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// What a worker is doing, in its column of the board.
const (
	away    = " "
	waiting = "."
	writing = "#"
	reading = "|"
	through = "-"
)

// board draws which processes hold the lock, a line for each time that passes
// without a change, and judges what they report.
type board struct {
	timeline *demo.Timeline
	marks    []string // of each process, the writer's first

	version  int // the last that was published for certain
	open     int // may be published, or not; 0: none
	reads    int
	together int // the most readers that read at once
	verified int // the most that did while the writer verified

	torn    []config // configs that were read torn
	old     []config // configs that were read after a later one was published
	crowded int      // how often the writer was not alone
	lost    int      // lost leases; with any, old and crowded prove nothing
}

func newBoard(out io.Writer, readers int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each process: %s holds the lock alone, %s together with others, %s waits, %s is done", writing, reading, waiting, through),
			columns("writer", demo.Letters(readers)), ""),
		marks: slices.Repeat([]string{away}, readers+1),
	}
}

// name returns the letter of a reader, of which the first is 1.
func name(reader int) string { return demo.Letter(reader - 1) }

// take notes a report.
func (b *board) take(r report) {
	mark := map[what]string{waits: waiting, alone: writing, shares: reading, leaves: away, lost: away, done: through}[r.What]
	if holding(b.marks[r.Worker]) || holding(mark) {
		b.draw()
	}
	b.marks[r.Worker] = mark

	switch {
	case r.What == alone:
		b.open = r.Version
	case r.What == shares && r.Worker == 0:
		b.version, b.open = r.Version, 0
	case r.What == lost:
		b.lost++
	case r.Found != nil:
		b.found(*r.Found)
	}
	n := b.readers()
	b.together = max(b.together, n)
	switch b.marks[0] {
	case writing:
		if n > 0 {
			b.crowded++
		}
	case reading:
		b.verified = max(b.verified, n)
	}
}

func holding(mark string) bool { return mark == writing || mark == reading }

// found notes a config that was read.
func (b *board) found(c config) {
	b.reads++
	switch {
	case c.torn():
		b.torn = append(b.torn, c)
	case c.Routes != b.version && (b.open == 0 || c.Routes != b.open):
		b.old = append(b.old, c)
	}
}

// readers returns how many readers hold the lock.
func (b *board) readers() (n int) {
	for _, mark := range b.marks[1:] {
		if mark == reading {
			n++
		}
	}
	return n
}

// draw draws the time that ends now.
func (b *board) draw() {
	if !b.timeline.Due() {
		return
	}
	note, n := "", b.readers()
	switch mark := b.marks[0]; {
	case mark == waiting && n > 0:
		note = fmt.Sprintf("waits for %d; later readers wait behind it", n)
	case mark == writing:
		note = fmt.Sprintf("publishes version %d", b.open)
	case mark == reading:
		note = fmt.Sprintf("verifies version %d while %d read it", b.version, n)
	}
	b.timeline.Draw(columns(b.marks[0], b.marks[1:]), "%s", note)
}

func columns(writer string, readers []string) []string {
	return slices.Concat([]string{fmt.Sprintf("%-8s", writer)}, readers)
}

// settle judges the reports and the last config. In a complete run the readers
// must have overlapped.
func (b *board) settle(end config, complete bool) (verdict string, err error) {
	b.found(end)
	var errs []error
	if len(b.torn) > 0 {
		errs = append(errs, fmt.Errorf("TORN: %d of %d reads: %+v", len(b.torn), b.reads, b.torn))
	}
	if len(b.old) > 0 && b.lost == 0 {
		errs = append(errs, fmt.Errorf("OLD: %d of %d reads: %+v", len(b.old), b.reads, b.old))
	}
	if b.crowded > 0 && b.lost == 0 {
		errs = append(errs, errors.New("the writer was not alone"))
	}
	if b.together < 2 && complete {
		errs = append(errs, errors.New("no two readers overlapped"))
	}
	if b.verified < 1 && complete {
		errs = append(errs, errors.New("no reader read while the writer verified"))
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	verdict = fmt.Sprintf("nothing was torn: %d reads up to version %d, up to %d readers at once, and up to %d while the writer verified",
		b.reads, end.Routes, b.together, b.verified)
	if b.lost > 0 {
		verdict += fmt.Sprintf(" (%d leases were lost during the run)", b.lost)
	}
	return verdict, nil
}
