package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// What a worker is doing, in its column of the board.
const (
	away    = " "
	waiting = "."
	holding = "#"
	dead    = "x"
	through = "-"
)

// board draws who holds the lock, one line for each turn, and keeps account of
// what the workers tell.
type board struct {
	out   io.Writer
	marks []string // of each worker
	adds  []int    // of each worker, how many

	began time.Time
	since time.Time // when the present turn began
	gap   time.Time // when the holder was killed; zero: nobody was, lately

	told int                     // the sum of all additions that were made
	last zkrecipes.Token         // the highest under which one was made
	open map[zkrecipes.Token]int // additions of which it is not told whether they were made
}

func newBoard(out io.Writer, workers int) *board {
	b := &board{
		out: out, began: time.Now(),
		marks: slices.Repeat([]string{away}, workers),
		adds:  make([]int, workers),
		open:  map[zkrecipes.Token]int{},
	}
	fmt.Fprintf(out, "one column for each worker: %s holds the lock, %s waits, %s was killed, %s is through\n\n",
		holding, waiting, dead, through)
	var head []string
	for i := range workers {
		head = append(head, string(rune('A'+i)))
	}
	fmt.Fprintf(out, "   from      to   %s   token   counter\n", strings.Join(head, " "))
	return b
}

func name(worker int) string { return string(rune('A' + worker - 1)) }

// take notes what a worker tells.
func (b *board) take(r report) {
	mark := &b.marks[r.Worker-1]
	if *mark == dead { // it told before it died
		mark = new(string)
	}
	switch r.What {
	case waits:
		*mark = waiting
	case holds:
		if !b.gap.IsZero() {
			b.draw(b.gap, "        nobody: the dead worker's place stands until its session times out")
			b.gap = time.Time{}
		}
		*mark = holding
		b.since = time.Now()
		b.open[r.Token] = r.Add
	case added:
		delete(b.open, r.Token)
		b.told += r.Add
		b.last = max(b.last, r.Token)
		b.adds[r.Worker-1]++
		b.draw(b.since, "%5d   %d + %d = %d", r.Token, r.Sum, r.Add, r.Sum+r.Add)
		*mark = away
	case kept:
		delete(b.open, r.Token)
		b.draw(b.since, "%5d   %d, not added to", r.Token, r.Sum)
		*mark = away
	case done:
		*mark = through
	}
}

// kill notes that a worker has been killed while it held the lock.
func (b *board) kill(worker int) {
	b.marks[worker-1] = dead
	b.gap = time.Now()
	b.draw(b.since, "        worker %s is killed", name(worker))
}

// draw draws the line of a turn that has just ended.
func (b *board) draw(from time.Time, format string, args ...any) {
	fmt.Fprintf(b.out, "%7.2f %7.2f   %s   %s\n", from.Sub(b.began).Seconds(), time.Since(b.began).Seconds(),
		strings.Join(b.marks, " "), fmt.Sprintf(format, args...))
}

func (b *board) killed(worker int) bool { return b.marks[worker-1] == dead }
func (b *board) made(worker int) int    { return b.adds[worker-1] }

// settle compares the counter with what the workers told: all that was told is
// there, and nothing else, save an addition whose worker could not tell.
func (b *board) settle(end counter) (verdict string, err error) {
	made := 0
	for _, n := range b.adds {
		made += n
	}
	sums, untold := []int{b.told}, 0
	for _, add := range b.open {
		untold += add
		for _, sum := range sums {
			sums = append(sums, sum+add)
		}
	}
	account := fmt.Sprintf("%d additions were told of, %d in all, and the counter is %d", made, b.told, end.sum)
	switch {
	case end.token < b.last:
		return "", fmt.Errorf("the counter bears token %d, and %d was written before", end.token, b.last)
	case !slices.Contains(sums, end.sum):
		return "", fmt.Errorf("LOST OR DOUBLED: %s; under way: %d", account, untold)
	case len(b.open) == 0:
		return fmt.Sprintf("nothing was lost: %s", account), nil
	case end.sum == b.told:
		return fmt.Sprintf("nothing was lost: %s (under way at the kill, and not added: %d)", account, untold), nil
	}
	return fmt.Sprintf("nothing was lost: %s (under way at the kill, and added: %d)", account, end.sum-b.told), nil
}
