package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// marks show what a worker is doing, in its column of the board.
var marks = map[what]string{waits: ".", computes: "#", merges: "M", merged: " ", through: "-"}

// shortest is the shortest time that gets a line of its own.
const shortest = 20 * time.Millisecond

// board draws who computes and who waits, one line for each time that passes
// without a change, and keeps account of what the workers tell.
type board struct {
	out   io.Writer
	doing []string // of each worker

	began time.Time
	since time.Time // when what is drawn next began

	waited []int         // how often each worker has waited
	passed []int         // how often it was let through
	parts  map[int][]int // that were taken, in each round
	sums   map[int]int   // that were merged
	wrong  []error
}

func newBoard(out io.Writer, workers int) *board {
	b := &board{
		out: out, began: time.Now(), since: time.Now(), doing: slices.Repeat([]string{" "}, workers),
		waited: make([]int, workers), passed: make([]int, workers),
		parts: map[int][]int{}, sums: map[int]int{},
	}
	fmt.Fprintf(out, "one column for each worker: %s computes, %s waits for the others, %s merges, %s is through\n\n",
		marks[computes], marks[waits], marks[merges], marks[through])
	var head []string
	for i := range workers {
		head = append(head, name(i))
	}
	fmt.Fprintf(out, "   from      to   %s\n", strings.Join(head, " "))
	return b
}

func name(worker int) string { return string(rune('A' + worker)) }

// take notes what a worker tells.
func (b *board) take(r report) {
	b.draw("")
	b.doing[r.Worker] = marks[r.What]
	switch r.What {
	case waits:
		b.waited[r.Worker]++
	case computes:
		b.pass(r)
		b.parts[r.Round] = append(b.parts[r.Round], r.Part)
	case merges:
		b.pass(r)
	case merged:
		b.draw(fmt.Sprintf("round %d: %d primes", r.Round+1, r.Sum))
		if _, ok := b.sums[r.Round]; ok {
			b.wrong = append(b.wrong, fmt.Errorf("round %d was merged twice", r.Round+1))
		}
		b.sums[r.Round] = r.Sum
	}
}

// pass notes that a worker was let through: by then all must have waited for it
// as often. One that did not merge has passed without a word.
func (b *board) pass(r report) {
	b.passed[r.Worker] = b.waited[r.Worker]
	for i, n := range b.waited {
		if n < b.passed[r.Worker] {
			b.wrong = append(b.wrong, fmt.Errorf("EARLY: %s went on in round %d, before %s was there", name(r.Worker), r.Round+1, name(i)))
		}
	}
}

// draw draws the time that ends now, if it is worth a line. One that is not is
// part of the next.
func (b *board) draw(note string) {
	now := time.Now()
	if now.Sub(b.since) < shortest && note == "" {
		return
	}
	line := fmt.Sprintf("%7.2f %7.2f   %s   %s", b.since.Sub(b.began).Seconds(), now.Sub(b.began).Seconds(), strings.Join(b.doing, " "), note)
	fmt.Fprintln(b.out, strings.TrimRight(line, " "))
	b.since = now
}

// settle judges what the workers told.
func (b *board) settle(rounds int, complete bool) (verdict string, err error) {
	wrong := b.wrong
	total := 0
	for round := range rounds {
		parts := slices.Clone(b.parts[round])
		slices.Sort(parts)
		if len(slices.Compact(slices.Clone(parts))) < len(parts) || complete && len(parts) != len(b.doing) {
			wrong = append(wrong, fmt.Errorf("round %d: the parts %v were taken", round+1, parts))
		}
		sum, ok := b.sums[round]
		if !ok && complete {
			wrong = append(wrong, fmt.Errorf("round %d was not merged", round+1))
		}
		if !ok {
			continue
		}
		if want := primes(round*size, (round+1)*size); sum != want {
			wrong = append(wrong, fmt.Errorf("WRONG: round %d: %d primes, and there are %d", round+1, sum, want))
		}
		total += sum
	}
	if len(wrong) > 0 {
		return "", errors.Join(wrong...)
	}
	return fmt.Sprintf("nobody went on early: %d workers, %d primes in the first %d numbers, and the sums are right", len(b.doing), total, len(b.sums)*size), nil
}
