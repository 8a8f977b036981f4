package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// What a worker is doing, in its column of the board.
const (
	away    = " "
	waiting = "."
	writing = "#"
	reading = "|"
	through = "-"
)

// shortest is the shortest time that gets a line of its own: readers who wait
// for one writer are granted a millisecond apart.
const shortest = 20 * time.Millisecond

// board draws who holds the lock, one line for each time that passes without a
// change, and keeps account of what the workers tell.
type board struct {
	out   io.Writer
	marks []string // of each worker, the writer's first

	began time.Time
	since time.Time // when what is drawn next began

	version  int // the last that was published for certain
	open     int // one of which it is not told whether it is published; 0: none
	reads    int
	together int // the most readers that were seen to read at once
	verified int // the most that did while the writer verified

	torn    []config // that were read
	old     []config // that were read after a later one was published
	crowded int      // times the writer was not alone
	lost    int      // leases, after which old and crowded prove nothing
}

func newBoard(out io.Writer, readers int) *board {
	b := &board{
		out: out, began: time.Now(), since: time.Now(),
		marks: slices.Repeat([]string{away}, readers+1),
	}
	fmt.Fprintf(out, "one column for each process: %s holds the lock alone, %s together with others, %s waits, %s is through\n\n",
		writing, reading, waiting, through)
	var head []string
	for i := range readers {
		head = append(head, name(i+1))
	}
	fmt.Fprintf(out, "   from      to   writer   %s\n", strings.Join(head, " "))
	return b
}

func name(reader int) string { return string(rune('A' + reader - 1)) }

// take notes what a worker tells.
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

// draw draws the time that ends now, if it is worth a line. One that is not is
// part of the next.
func (b *board) draw() {
	now := time.Now()
	if now.Sub(b.since) < shortest {
		return
	}
	note, n := "", b.readers()
	switch mark := b.marks[0]; {
	case mark == waiting && n > 0:
		note = fmt.Sprintf("waits for %d, and later readers wait behind it", n)
	case mark == writing:
		note = fmt.Sprintf("publishes version %d", b.open)
	case mark == reading:
		note = fmt.Sprintf("verifies version %d while %d read it", b.version, n)
	}
	line := fmt.Sprintf("%7.2f %7.2f   %-6s   %s   %s", b.since.Sub(b.began).Seconds(), now.Sub(b.began).Seconds(),
		b.marks[0], strings.Join(b.marks[1:], " "), note)
	fmt.Fprintln(b.out, strings.TrimRight(line, " "))
	b.since = now
}

// settle judges what the workers told, and the config that is there in the end.
// Of a run that was not complete it does not ask that the readers overlap.
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
		errs = append(errs, errors.New("no two readers read at once"))
	}
	if b.verified < 1 && complete {
		errs = append(errs, errors.New("nobody read while the writer verified"))
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	verdict = fmt.Sprintf("nothing was torn: %d reads up to version %d, by up to %d readers at once, and by %d while the writer verified",
		b.reads, end.Routes, b.together, b.verified)
	if b.lost > 0 {
		verdict += fmt.Sprintf(" (%d leases were lost on the way)", b.lost)
	}
	return verdict, nil
}
