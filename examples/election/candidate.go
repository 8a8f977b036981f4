package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	electionPath = "/election"
	journalPath  = "/journal"

	// sessionTimeout is short for the sake of the demo, because a dead leader is replaced
	// only after that. Use 10 s or more in a service.
	sessionTimeout = 2 * time.Second
)

// params are the parameters of a candidate.
type params struct {
	demo.Env
	ID int
}

// campaign leads whenever it is elected, until ctx ends.
func campaign(ctx context.Context, p params) error {
	name := demo.Letter(p.ID)
	client, err := p.Dial(ctx, "candidate "+name, sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	election := zkrecipes.NewElection(client, electionPath)
	return election.Lead(ctx, []byte(name), func(ctx context.Context, term *zkrecipes.Term) error {
		return lead(ctx, term, report{Candidate: p.ID, Token: term.Token()})
	})
}

// lead writes to the journal, again and again. Once the term is lost it tries once more:
// it must not depend on noticing in time.
func lead(ctx context.Context, term *zkrecipes.Term, turn report) error {
	for {
		entry := fmt.Appendf(nil, "%d %s", term.Token(), demo.Letter(turn.Candidate))
		rs, err := term.Commit(context.WithoutCancel(ctx), zkrecipes.OpSet(journalPath, entry, -1))
		switch {
		case err == nil:
			turn.Version = rs[0].Stat.Version
			turn.tell(wrote)
		case errors.Is(err, zkrecipes.ErrUncertain):
			turn.tell(unsure)
		default:
			turn.tell(refused)
			return err // Lead campaigns again
		}
		if demo.Pause(ctx, 100*time.Millisecond, 100*time.Millisecond) != nil && term.Err() == nil {
			return ctx.Err() // to stop, and resign
		}
	}
}

// report is what a candidate tells the parent.
type report struct {
	Candidate int
	What      what
	Token     zkrecipes.Token
	Version   int32 `json:",omitempty"` // of the journal, after the write
}

type what string

const (
	wrote   what = "wrote"   // to the journal, for certain
	unsure  what = "unsure"  // whether it wrote
	refused what = "refused" // it did not write, because it no longer leads
)

func (r report) tell(w what) {
	r.What = w
	demo.Tell(r)
}
