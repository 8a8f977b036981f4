package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// board draws which worker makes ids with which slot, and keeps the account of the ids.
type board struct {
	timeline *demo.Timeline
	rounds   int           // batches that each worker is to make
	batches  []int         // that each worker has made
	slots    []int         // of each worker; -1: none yet
	left     []bool        // that each worker told that it leaves its slot
	last     []int64       // id of each worker
	ids      map[int64]int // the worker of each id
	victim   int           // the worker that is killed; -1: none yet
	problems []string
}

func newBoard(out io.Writer, workers, rounds int) *board {
	return &board{
		timeline: demo.NewTimeline(out, "one column for each worker: the slot with which it makes ids, x if it was killed",
			demo.Letters(workers), ""),
		rounds: rounds, batches: make([]int, workers), slots: slices.Repeat([]int{-1}, workers),
		left: make([]bool, workers), last: make([]int64, workers), ids: map[int64]int{}, victim: -1,
	}
}

// take notes a report, and reports whether its worker is to be killed now.
func (b *board) take(r report) (kill bool) {
	if r.Left {
		b.left[r.Worker] = true
		return false
	}
	if b.slots[r.Worker] < 0 {
		for other, slot := range b.slots {
			if slot == r.Slot && other != b.victim && !b.left[other] {
				b.problem("TWO HOLDERS: workers %s and %s have slot %d", demo.Letter(other), demo.Letter(r.Worker), slot)
			}
		}
		b.slots[r.Worker] = r.Slot
		b.draw("worker %s has slot %d", demo.Letter(r.Worker), r.Slot)
	}
	for _, id := range r.IDs {
		if other, ok := b.ids[id]; ok {
			b.problem("TWICE: %d, of workers %s and %s", id, demo.Letter(other), demo.Letter(r.Worker))
		}
		b.ids[id] = r.Worker
		if id <= b.last[r.Worker] {
			b.problem("NOT GROWING: %d after %d", id, b.last[r.Worker])
		}
		b.last[r.Worker] = id
	}
	b.batches[r.Worker]++
	if r.Slot == victimSlot && b.batches[r.Worker] == 2 && b.victim < 0 {
		b.victim = r.Worker
		b.draw("worker %s is killed; its slot is free when its session expires", demo.Letter(r.Worker))
		return true
	}
	return false
}

func (b *board) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *board) draw(format string, args ...any) {
	var row []string
	for i, slot := range b.slots {
		switch {
		case i == b.victim:
			row = append(row, "x")
		case slot < 0:
			row = append(row, ".")
		default:
			row = append(row, fmt.Sprint(slot))
		}
	}
	b.timeline.Draw(row, format, args...)
}

// complete reports whether all workers but the killed one have made their batches.
func (b *board) complete() bool {
	for i, n := range b.batches {
		if i != b.victim && n < b.rounds {
			return false
		}
	}
	return true
}

// settle judges what the workers reported.
func (b *board) settle(complete bool) (verdict string, err error) {
	isTaken := false
	for i, slot := range b.slots {
		isTaken = isTaken || i != b.victim && slot == victimSlot
	}
	switch {
	case len(b.problems) > 0:
		return "", fmt.Errorf("%s", strings.Join(b.problems, "; "))
	case complete && b.victim < 0:
		return "", fmt.Errorf("no worker was killed")
	case complete && !isTaken:
		return "", fmt.Errorf("nobody has got slot %d, the killed worker's", victimSlot)
	}
	return fmt.Sprintf("no id came twice: %d ids of %d workers", len(b.ids), len(b.slots)), nil
}
