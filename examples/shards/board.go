package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	victim   = 1 // is killed
	sleeper  = 2 // stands still
	upgraded = 3 // stops, and a new process starts
)

// step is an action on a worker, which is due once that many workers share the shards evenly. back has got shards
// since the last step.
type step struct {
	workers int
	back    int // -1: nobody need have
	do      demo.Action
	worker  int
	what    string
}

// board draws who writes to which shard.
type board struct {
	timeline *demo.Timeline
	steps    []step // that are left
	drawn    []int  // the owners
	shards   []shard
	mark     int64 // the highest token when the last step was done
	longest  time.Duration
	writes   int
}

// shard is what is known of one.
type shard struct {
	owner  int // -1: nobody writes
	free   time.Time
	token  int64
	tokens map[int32]int64 // by the version that was written
}

func newBoard(out io.Writer, workers, shards int) *board {
	var heads []string
	for i := range shards {
		heads = append(heads, fmt.Sprint(i%10))
	}
	name := func(worker int) string { return "worker " + demo.Letter(worker) }
	b := &board{
		timeline: demo.NewTimeline(out, "one column for each shard: which worker writes to it, . if none does", heads, ""),
		steps: []step{
			{workers, -1, demo.Kill, victim, name(victim) + " is killed"},
			{workers - 1, -1, demo.Freeze, sleeper, name(sleeper) + " stands still"},
			{workers - 2, -1, demo.Thaw, sleeper, name(sleeper) + " wakes up"},
			{workers - 1, sleeper, demo.Upgrade, upgraded, name(upgraded) + " is upgraded"},
			{workers - 1, upgraded, demo.End, 0, "all have their shares"},
		},
		shards: make([]shard, shards),
	}
	for i := range b.shards {
		b.shards[i] = shard{owner: -1, tokens: map[int32]int64{}}
	}
	return b
}

// see notes a report.
func (b *board) see(r report) {
	s := &b.shards[r.Shard]
	switch {
	case r.Ends:
		if s.token == r.Token && s.owner >= 0 {
			s.owner, s.free = -1, time.Now()
		}
	default:
		s.tokens[r.Version] = r.Token
		b.writes++
		if r.Token < s.token {
			return // it was reported late
		}
		if !s.free.IsZero() {
			b.longest = max(b.longest, time.Since(s.free))
		}
		s.owner, s.token, s.free = r.Worker, r.Token, time.Time{}
	}
	if b.timeline.Due() && !slices.Equal(b.owners(), b.drawn) {
		b.draw("")
	}
}

func (b *board) owners() (owners []int) {
	for _, s := range b.shards {
		owners = append(owners, s.owner)
	}
	return owners
}

func (b *board) draw(what string) {
	b.drawn = b.owners()
	var row []string
	for _, owner := range b.drawn {
		if owner < 0 {
			row = append(row, ".")
		} else {
			row = append(row, demo.Letter(owner))
		}
	}
	b.timeline.Draw(row, "%s", what)
}

// next returns what is to be done now, and to which worker.
func (b *board) next() (do demo.Action, worker int) {
	if len(b.steps) == 0 || !b.isDue(b.steps[0]) {
		return demo.Nothing, 0
	}
	s := b.steps[0]
	b.steps = b.steps[1:]
	b.draw(s.what)
	for i := range b.shards {
		one := &b.shards[i]
		b.mark = max(b.mark, one.token)
		if (s.do == demo.Kill || s.do == demo.Freeze) && one.owner == s.worker {
			one.owner, one.free = -1, time.Now()
		}
	}
	return s.do, s.worker
}

// isDue reports whether that many workers have all shards, evenly, and the one that is to be back has some.
func (b *board) isDue(s step) bool {
	shares, back := map[int]int{}, s.back < 0
	for _, one := range b.shards {
		shares[one.owner]++
		back = back || one.owner == s.back && one.token > b.mark
	}
	for _, share := range shares {
		if n := len(b.shards); share != n/s.workers && share != (n+s.workers-1)/s.workers {
			return false
		}
	}
	return back && shares[-1] == 0 && len(shares) == s.workers
}

// settle judges the run.
func (b *board) settle(complete bool) (verdict string, err error) {
	var errs []error
	for i, s := range b.shards {
		last := int64(0)
		for _, version := range slices.Sorted(maps.Keys(s.tokens)) {
			if token := s.tokens[version]; token < last {
				errs = append(errs, fmt.Errorf("TWO OWNERS: shard %d was written to under token %d after %d", i, token, last))
			}
			last = max(last, s.tokens[version])
		}
	}
	if complete && len(b.steps) > 0 {
		errs = append(errs, errors.New("the shards were not shared out evenly again"))
	}
	return fmt.Sprintf("one owner at a time: %d writes to %d shards; none was without an owner for longer than %v",
		b.writes, len(b.shards), b.longest.Round(time.Millisecond)), errors.Join(errs...)
}
