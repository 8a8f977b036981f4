package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// What a candidate is doing, in its column of the board.
const (
	waiting = "."
	leading = "#"
	dead    = "x"
	still   = "z"
)

// board draws which candidate leads, a line for each term, and keeps the account of what
// they wrote.
type board struct {
	mu       sync.Mutex
	timeline *demo.Timeline
	marks    []string // of each candidate
	most     int      // writes of a leader before something happens to it

	leader string // by the observer; empty: none
	frozen int    // the candidate that stands still or did; -1: none yet
	killed bool
	thawed bool
	woke   bool // the thawed one was refused

	writes []report
	unsure int                     // writes that may have been made
	count  map[zkrecipes.Token]int // writes by term
	errs   []error
}

func newBoard(out io.Writer, candidates, writes int) *board {
	return &board{
		timeline: demo.NewTimeline(out,
			fmt.Sprintf("one column for each candidate: %s leads, %s waits, %s was killed, %s stands still", leading, waiting, dead, still),
			demo.Letters(candidates), "what ended"),
		marks: slices.Repeat([]string{waiting}, candidates),
		most:  writes, frozen: -1, count: map[zkrecipes.Token]int{},
	}
}

func (b *board) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

// see notes whom the observer sees lead.
func (b *board) see(leader zkrecipes.Leader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader == "" && leader.None() {
		return
	}
	what := "no leader"
	if b.leader != "" {
		what = b.leader + "'s term"
	}
	b.timeline.Draw(b.marks, "%s", what)
	b.leader = string(leader.Value)
	for i := range b.marks {
		if b.marks[i] == leading {
			b.marks[i] = waiting
		}
		if b.leader == demo.Letter(i) {
			b.marks[i] = leading
		}
	}
}

// take notes a report and returns what is to be done, and to which candidate.
func (b *board) take(r report) (do demo.Action, candidate int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.What {
	case unsure:
		b.unsure++
		return demo.Nothing, 0
	case refused:
		if b.thawed && r.Candidate == b.frozen {
			b.timeline.Draw(b.marks, "candidate %s wakes up, and its write under token %d is refused", demo.Letter(r.Candidate), r.Token)
			b.marks[r.Candidate] = waiting
			b.woke = true
		}
		return demo.Nothing, 0
	}
	b.writes = append(b.writes, r)
	b.count[r.Token]++
	switch enough := b.count[r.Token] >= b.most; {
	case !enough:
	case !b.killed:
		b.killed = true
		b.timeline.Draw(b.marks, "candidate %s is killed", demo.Letter(r.Candidate))
		b.marks[r.Candidate] = dead
		b.unsure++
		return demo.Kill, r.Candidate
	case b.marks[r.Candidate] == dead:
	case b.frozen < 0:
		b.frozen = r.Candidate
		b.timeline.Draw(b.marks, "candidate %s stands still", demo.Letter(r.Candidate))
		b.marks[r.Candidate] = still
		b.unsure++
		return demo.Freeze, r.Candidate
	case r.Candidate == b.frozen && !b.thawed:
	case !b.thawed:
		b.thawed = true
		return demo.Thaw, b.frozen
	case b.woke:
		return demo.End, 0
	}
	return demo.Nothing, 0
}

// settle checks that the writes came in the order of the leaders' tokens, and that there
// were no others: version is how many there were in all. In a complete run the leader that
// stood still was refused.
func (b *board) settle(version int32, complete bool) (verdict string, err error) {
	slices.SortFunc(b.writes, func(x, y report) int { return cmp.Compare(x.Version, y.Version) })
	errs := b.errs
	for i, r := range b.writes[min(1, len(b.writes)):] {
		if before := b.writes[i]; r.Token < before.Token {
			errs = append(errs, fmt.Errorf("OLD LEADER: write %d was made under token %d, after one under %d", r.Version, r.Token, before.Token))
		}
		if r.Version == b.writes[i].Version {
			errs = append(errs, fmt.Errorf("two leaders report write %d", r.Version))
		}
	}
	if others := int(version) - len(b.writes); others < 0 || others > b.unsure {
		errs = append(errs, fmt.Errorf("%d writes were reported, and there are %d", len(b.writes), version))
	}
	if complete && !b.woke {
		errs = append(errs, errors.New("the leader that stood still was not refused"))
	}
	return fmt.Sprintf("one leader at a time: %d writes of %d terms, in the order of their tokens", len(b.writes), len(b.count)), errors.Join(errs...)
}
