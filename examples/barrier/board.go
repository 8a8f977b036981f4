package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// marks are what a worker is doing, in its column of the board.
var marks = map[what]string{waits: ".", computes: "#", merges: "M", merged: " ", through: "-"}

// board draws which workers compute and which wait, a line for each time that
// passes without a change, and judges what they report.
type board struct {
	timeline *demo.Timeline
	doing    []string // the mark of each worker

	waited []int         // how often each worker has waited
	passed []int         // how often it was let through
	parts  map[int][]int // that were taken in each round
	sums   map[int]int   // of the rounds that were merged
	wrong  []error
}

func newBoard(out io.Writer, workers int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each worker: %s computes, %s waits for the others, %s merges, %s is done",
				marks[computes], marks[waits], marks[merges], marks[through]),
			demo.Letters(workers), ""),
		doing:  slices.Repeat([]string{" "}, workers),
		waited: make([]int, workers),
		passed: make([]int, workers),
		parts:  map[int][]int{},
		sums:   map[int]int{},
	}
}

// take notes a report.
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

// pass notes that a worker was let through. By then all workers must have waited
// as often as it has. A worker that does not merge passes without a report.
func (b *board) pass(r report) {
	b.passed[r.Worker] = b.waited[r.Worker]
	for i, n := range b.waited {
		if n < b.passed[r.Worker] {
			b.wrong = append(b.wrong, fmt.Errorf("EARLY: %s went on in round %d before %s was there", demo.Letter(r.Worker), r.Round+1, demo.Letter(i)))
		}
	}
}

// draw draws the time that ends now. With a note it gets a line however short it
// was.
func (b *board) draw(note string) {
	if b.timeline.Due() || note != "" {
		b.timeline.Draw(b.doing, "%s", note)
	}
}

// settle judges the reports. In a complete run all rounds must be there.
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
			wrong = append(wrong, fmt.Errorf("WRONG: round %d: the sum is %d primes, and there are %d", round+1, sum, want))
		}
		total += sum
	}
	if len(wrong) > 0 {
		return "", errors.Join(wrong...)
	}
	return fmt.Sprintf("no worker went on early: %d workers, %d primes in the first %d numbers, and the sums are right", len(b.doing), total, len(b.sums)*size), nil
}
