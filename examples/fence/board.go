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
	waiting = "."
	holding = "#"
	still   = "z"
)

// board draws which worker holds the lock.
type board struct {
	timeline *demo.Timeline
	marks    []string // of each worker
	most     int      // writes of a holder before something happens

	first   int // the worker that is made to stand still; -1: none yet
	thawed  bool
	refused bool
	token   int64 // of the holder
	writes  int   // under that token
}

func newBoard(out io.Writer, workers, writes int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each worker: %s holds the lock, %s waits, %s stands still", holding, waiting, still),
			demo.Letters(workers), "token   what ended"),
		marks: slices.Repeat([]string{waiting}, workers),
		most:  writes, first: -1,
	}
}

func (b *board) draw(format string, args ...any) {
	b.timeline.Draw(b.marks, "%5d   %s", b.token, fmt.Sprintf(format, args...))
}

// take notes a report and returns what is to be done, and to which worker.
func (b *board) take(r report) (do demo.Action, worker int) {
	name := demo.Letter(r.Worker)
	switch r.What {
	case holds:
		if b.token != 0 {
			b.draw("the hold: the session has expired")
		}
		b.marks[r.Worker], b.token, b.writes = holding, r.Token, 0
	case wrote:
		switch b.writes++; {
		case b.writes < b.most:
		case b.first < 0:
			b.draw("worker %s is stopped after %d writes", name, b.writes)
			b.first, b.marks[r.Worker] = r.Worker, still
			return demo.Freeze, b.first
		case r.Worker != b.first && !b.thawed:
			b.draw("worker %s goes on, with the lock as it believes", demo.Letter(b.first))
			b.thawed, b.marks[b.first] = true, holding
			return demo.Thaw, b.first
		case b.refused:
			b.draw("the run, after %d writes of worker %s", b.writes, name)
			return demo.End, 0
		}
	case refused:
		b.draw("worker %s: its write under token %d is refused, 412", name, r.Token)
		b.marks[r.Worker], b.refused = waiting, b.thawed && r.Worker == b.first
	}
	return demo.Nothing, 0
}

// settle checks that the entries of the ledger are in the order of their tokens, and that in a
// complete run the worker that stood still was refused.
func (b *board) settle(entries []entry, complete bool) (verdict string, err error) {
	holders := map[int64]bool{}
	for i, e := range entries {
		holders[e.token] = true
		if i > 0 && e.token < entries[i-1].token {
			err = errors.Join(err, fmt.Errorf("OLD HOLDER: entry %d was written under token %d, after one under %d", i+1, e.token, entries[i-1].token))
		}
	}
	if complete && !b.refused {
		err = errors.Join(err, errors.New("the worker that stood still was not refused"))
	}
	return fmt.Sprintf("no old holder wrote: %d entries of %d holders, in the order of their tokens", len(entries), len(holders)), err
}
