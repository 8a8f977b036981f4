package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// counter is the data of the znode that all add to, and the token of the lease
// under which it was written.
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

// report is what a worker tells the parent.
type report struct {
	Worker int
	Round  int
	What   what
	Token  zkrecipes.Token `json:",omitempty"`
	Sum    int             `json:",omitempty"` // as found with the lock held
	Add    int             `json:",omitempty"`
}

type what string

const (
	waits what = "waits" // for the lock
	holds what = "holds" // it, and is about to add
	added what = "added" // for certain
	kept  what = "kept"  // the addition back, for certain
	done  what = "done"  // with all rounds
)

// work is the life of a worker: it adds to the counter as often as it is told.
func work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutex worker", flag.ExitOnError)
	id := flags.Int("id", 0, "number of this worker")
	rounds := flags.Int("rounds", 0, "additions to make")
	linger := flags.Int("linger", 0, "`round` in which to hold the lock until killed")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := dial(ctx, *list, *prefix, fmt.Sprint("worker ", *id))
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewMutex(client, lockPath)
	for round := 1; round <= *rounds; {
		turn := report{Worker: *id, Round: round}
		toil := 50*time.Millisecond + rand.N(150*time.Millisecond)
		if round == *linger {
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
			round++ // also if the lock was lost right after
		case errors.Is(err, zkrecipes.ErrUncertain):
			round++ // it may have been made, so it must not be made again
		case errors.Is(err, zkrecipes.ErrLost):
			// It was not made: once more.
		default:
			return err
		}
	}
	report{Worker: *id}.tell(done)
	return nil
}

func dial(ctx context.Context, servers, prefix, identity string) (*zkrecipes.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return zkrecipes.Dial(ctx, strings.Split(servers, ","), &zkrecipes.Options{
		SessionTimeout: sessionTimeout,
		Prefix:         prefix,
		Identity:       identity,
	})
}

// add adds a few to the counter, with the lock held.
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

	select { // the work that the lock is there for
	case <-time.After(toil):
	case <-ctx.Done(): // told to stop, or the lock was lost
		turn.tell(kept)
		return context.Cause(ctx)
	}

	next := counter{sum: old.sum + turn.Add, token: lease.Token()}
	_, err = lease.Commit(ctx, &zk.SetDataRequest{Path: counterPath, Data: next.bytes(), Version: stat.Version})
	switch {
	case err == nil:
		turn.tell(added)
	case !errors.Is(err, zkrecipes.ErrUncertain):
		turn.tell(kept)
	}
	return err
}

func (r report) tell(w what) {
	r.What = w
	demo.Tell(r)
}
