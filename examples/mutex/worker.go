package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	lockPath    = "/lock"
	counterPath = "/counter"

	// sessionTimeout is short for the sake of the demo, because the killed
	// worker's lock stays taken for that long. Use 10 s or more in a service.
	sessionTimeout = 2 * time.Second
)

// counter is the data of the znode to which all workers add: the sum, and the
// fencing token of the lease under which it was written.
type counter struct {
	sum   int
	token zkrecipes.Token
}

func (c counter) bytes() []byte { return fmt.Appendf(nil, "%d %d", c.sum, c.token) }

func parseCounter(data []byte) (c counter, err error) {
	if _, err = fmt.Sscanf(string(data), "%d %d", &c.sum, &c.token); err != nil {
		return c, fmt.Errorf("counter %q: %w", data, err)
	}
	return c, nil
}

// params are the parameters of a worker.
type params struct {
	demo.Env
	ID     int
	Rounds int // additions to make
	Linger int // round in which to hold the lock until killed; 0: none
}

// work adds to the counter, Rounds times.
func work(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "worker "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewMutex(client, lockPath)
	for round := 1; round <= p.Rounds; {
		turn := report{Worker: p.ID, Round: round}
		toil := 50*time.Millisecond + rand.N(150*time.Millisecond)
		if round == p.Linger {
			toil = time.Minute
		}
		turn.tell(waits)
		made := false
		err := lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			err := add(ctx, lease, turn, toil)
			made = err == nil
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case made:
			round++ // even if the lock was lost right after
		case errors.Is(err, zkrecipes.ErrUncertain):
			round++ // it may have been made, so it must not be made again
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted):
			// It was not made. Try again.
		default:
			return err
		}
	}
	report{Worker: p.ID}.tell(done)
	return nil
}

// add adds a small number to the counter while the lock is held.
func add(ctx context.Context, lease *zkrecipes.Lease, turn report, toil time.Duration) error {
	data, stat, err := lease.Get(ctx, counterPath)
	if err != nil {
		return err
	}
	old, err := parseCounter(data)
	if err != nil {
		return err
	}
	if lease.Token() <= old.token {
		return fmt.Errorf("token %d was granted after %d", lease.Token(), old.token)
	}
	turn.Token, turn.Sum, turn.Add = lease.Token(), old.sum, 1+rand.IntN(9)
	turn.tell(holds)

	// The work that the lock protects.
	if err := demo.Pause(ctx, toil, toil); err != nil {
		turn.tell(kept)
		return err
	}

	next := counter{sum: old.sum + turn.Add, token: lease.Token()}
	_, err = lease.Commit(ctx, zkrecipes.OpSet(counterPath, next.bytes(), stat.Version))
	switch {
	case err == nil:
		turn.tell(added)
	case !errors.Is(err, zkrecipes.ErrUncertain):
		turn.tell(kept)
	}
	return err
}

// report is what a worker tells the parent.
type report struct {
	Worker int
	Round  int
	What   what
	Token  zkrecipes.Token `json:",omitempty"`
	Sum    int             `json:",omitempty"` // read under the lock
	Add    int             `json:",omitempty"`
}

type what string

const (
	waits what = "waits" // for the lock
	holds what = "holds" // the lock, and is about to add
	added what = "added" // for certain
	kept  what = "kept"  // the counter as it was, for certain
	done  what = "done"  // with all rounds
)

func (r report) tell(w what) {
	r.What = w
	demo.Tell(r)
}
