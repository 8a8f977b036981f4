package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// What a worker is doing, in its column of the board.
const (
	away    = " "
	waiting = "."
	holding = "#"
	dead    = "x"
	through = "-"
)

// board draws which worker holds the lock, a line for each turn, and keeps the
// account of what the workers report.
type board struct {
	timeline *demo.Timeline
	marks    []string // of each worker
	rounds   int      // additions that each worker is to make
	adds     []int    // additions that each worker has made
	gap      bool     // the holder was killed, and no other holds the lock yet

	sum  int                        // of all additions that were reported as made
	last zkrecipes.Token            // the highest under which one was made
	open map[zkrecipes.Token]report // turns whose outcome was not reported
}

func newBoard(out io.Writer, workers, rounds int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each worker: %s holds the lock, %s waits, %s was killed, %s is done", holding, waiting, dead, through),
			demo.Letters(workers), "token   counter"),
		marks:  slices.Repeat([]string{away}, workers),
		rounds: rounds,
		adds:   make([]int, workers),
		open:   map[zkrecipes.Token]report{},
	}
}

// take notes a worker's report.
func (b *board) take(r report) {
	mark := &b.marks[r.Worker]
	if *mark == dead { // the worker wrote the report before it was killed
		mark = new(string)
	}
	switch r.What {
	case waits:
		*mark = waiting
	case holds:
		if b.gap {
			b.timeline.Draw(b.marks, "        no holder: the killed worker's place remains until its session expires")
			b.gap = false
		}
		*mark = holding
		b.timeline.Begin()
		b.open[r.Token] = r
	case added:
		delete(b.open, r.Token)
		b.sum += r.Add
		b.last = max(b.last, r.Token)
		b.adds[r.Worker]++
		b.timeline.Draw(b.marks, "%5d   %d + %d = %d", r.Token, r.Sum, r.Add, r.Sum+r.Add)
		*mark = away
	case kept:
		delete(b.open, r.Token)
		b.timeline.Draw(b.marks, "%5d   %d, nothing added", r.Token, r.Sum)
		*mark = away
	case done:
		*mark = through
	}
}

// kill notes that a worker is killed while it holds the lock.
func (b *board) kill(worker int) {
	b.marks[worker] = dead
	b.timeline.Draw(b.marks, "        worker %s is killed", demo.Letter(worker))
	b.gap = true
}

// settle compares the counter with the reports: every addition that was reported
// as made is in it, and nothing else except additions that no worker could report
// on: the killed one, and those whose Commit was uncertain. In a complete run all
// workers that were not killed have made all of theirs.
func (b *board) settle(end counter, complete bool) (verdict string, err error) {
	tried := slices.Clone(b.adds)
	sums, open := []int{b.sum}, 0
	for _, turn := range b.open {
		tried[turn.Worker]++
		open += turn.Add
		for _, sum := range sums {
			sums = append(sums, sum+turn.Add)
		}
	}
	made, idle := 0, -1
	for i, n := range b.adds {
		made += n
		if tried[i] < b.rounds && b.marks[i] != dead {
			idle = i
		}
	}
	account := fmt.Sprintf("%d reported additions make %d, and the counter is %d", made, b.sum, end.sum)
	switch {
	case end.token < b.last:
		return "", fmt.Errorf("the counter bears token %d, and %d was written before", end.token, b.last)
	case !slices.Contains(sums, end.sum):
		return "", fmt.Errorf("LOST OR DOUBLED: %s; outcome not reported: %d", account, open)
	case complete && idle >= 0:
		return "", fmt.Errorf("worker %s made %d of %d additions", demo.Letter(idle), b.adds[idle], b.rounds)
	case len(b.open) == 0:
		return fmt.Sprintf("nothing was lost: %s", account), nil
	case end.sum == b.sum:
		return fmt.Sprintf("nothing was lost: %s (outcome not reported, and not added: %d)", account, open), nil
	}
	return fmt.Sprintf("nothing was lost: %s (outcome not reported, and added: %d of %d)", account, end.sum-b.sum, open), nil
}
