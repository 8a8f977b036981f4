package main

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	victim  = 1 // is killed
	sleeper = 2 // stands still
)

// phase is what the board waits for.
type phase int

const (
	untilAllServe phase = iota
	untilTheVictimIsGone
	untilTheSleeperIsGone
	untilTheSleeperIsBack
	over
)

// board draws which members are there.
type board struct {
	mu       sync.Mutex
	timeline *demo.Timeline
	members  int
	there    map[string]zkrecipes.Member // by id, as the watcher saw last
	phase    phase
	slept    int64 // the sleeper's session when it was made to stand still
	changes  int
	errs     []error
}

func newBoard(out io.Writer, members int) *board {
	return &board{
		timeline: demo.NewTimeline(out, "one column for each member: # serves, : starts, . is not there",
			demo.Letters(members), ""),
		members: members, there: map[string]zkrecipes.Member{},
	}
}

func (b *board) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

// see notes whom the watcher sees.
func (b *board) see(members []zkrecipes.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw("")
	b.changes++
	b.there = map[string]zkrecipes.Member{}
	for _, m := range members {
		if len(m.ID) != 1 || m.ID[0] < 'A' || int(m.ID[0]-'A') >= b.members {
			b.errs = append(b.errs, fmt.Errorf("STRANGER: %q is a member, and has not joined", m.ID))
		}
		b.there[m.ID] = m
	}
}

func (b *board) draw(what string) {
	var row []string
	for _, name := range demo.Letters(b.members) {
		switch m, ok := b.there[name]; {
		case !ok:
			row = append(row, ".")
		case string(m.Data) == serving:
			row = append(row, "#")
		default:
			row = append(row, ":")
		}
	}
	b.timeline.Draw(row, "%s", what)
}

// next returns what is to be done now, and to which member.
func (b *board) next() (do demo.Action, member int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, alive := b.there[demo.Letter(victim)]
	sleeps, present := b.there[demo.Letter(sleeper)]
	switch {
	case b.phase == untilAllServe && b.serving() == b.members:
		b.phase = untilTheVictimIsGone
		b.draw("member " + demo.Letter(victim) + " is killed")
		return demo.Kill, victim
	case b.phase == untilTheVictimIsGone && !alive:
		b.phase, b.slept = untilTheSleeperIsGone, sleeps.Session
		b.draw("member " + demo.Letter(sleeper) + " stands still")
		return demo.Freeze, sleeper
	case b.phase == untilTheSleeperIsGone && !present:
		b.phase = untilTheSleeperIsBack
		b.draw("member " + demo.Letter(sleeper) + " wakes up")
		return demo.Thaw, sleeper
	case b.phase == untilTheSleeperIsBack && present && sleeps.Session != b.slept:
		b.phase = over
		b.draw("member " + demo.Letter(sleeper) + " is back, in another session")
		return demo.End, 0
	}
	return demo.Nothing, 0
}

// serving returns how many members serve.
func (b *board) serving() (n int) {
	for _, m := range b.there {
		if string(m.Data) == serving {
			n++
		}
	}
	return n
}

// settle judges the run.
func (b *board) settle(complete bool) (verdict string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := b.errs
	if complete && b.phase != over {
		errs = append(errs, errors.New("the member that stood still is not back"))
	}
	return fmt.Sprintf("every living member was seen, in %d changes", b.changes), errors.Join(errs...)
}
