package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// size is the number of numbers that a round goes through.
const size = 100_000

// params are the parameters of a worker.
type params struct {
	demo.Env
	ID      int
	Workers int
	Rounds  int
	Dir     string // for the parts
}

// work goes through the rounds with the other workers.
func work(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "worker "+demo.Letter(p.ID), 0)
	if err != nil {
		return err
	}
	defer client.Close()

	barrier := zkrecipes.NewBarrier(client, "/primes", p.Workers)
	for round := range p.Rounds {
		demo.Tell(report{Worker: p.ID, What: waits, Round: round})
		part, err := barrier.Wait(ctx) // until all workers are there
		if err != nil {
			return err
		}
		demo.Tell(report{Worker: p.ID, What: computes, Round: round, Part: part})
		from, to := rangeOf(round, part, p.Workers)
		demo.Pause(ctx, 0, 300*time.Millisecond) // some workers are slower
		if err := save(p.Dir, round, part, primes(from, to)); err != nil {
			return err
		}

		demo.Tell(report{Worker: p.ID, What: waits, Round: round})
		lead, err := barrier.Wait(ctx) // until all parts are there
		if err != nil {
			return err
		}
		if lead != 0 {
			continue // the others wait for the merger in the next round
		}
		demo.Tell(report{Worker: p.ID, What: merges, Round: round})
		sum := 0
		for part := range p.Workers {
			n, err := load(p.Dir, round, part)
			if err != nil {
				return err
			}
			sum += n
		}
		demo.Pause(ctx, 100*time.Millisecond, 100*time.Millisecond)
		demo.Tell(report{Worker: p.ID, What: merged, Round: round, Sum: sum})
	}
	demo.Tell(report{Worker: p.ID, What: through})
	return nil
}

// rangeOf returns the numbers of a part: the first, and the one after the last.
func rangeOf(round, part, parts int) (from, to int) {
	from = round * size
	return from + size*part/parts, from + size*(part+1)/parts
}

// primes counts the primes in [from, to).
func primes(from, to int) (n int) {
	for i := max(from, 2); i < to; i++ {
		prime := true
		for d := 2; d*d <= i && prime; d++ {
			prime = i%d != 0
		}
		if prime {
			n++
		}
	}
	return n
}

func file(dir string, round, part int) string {
	return filepath.Join(dir, fmt.Sprintf("%d-%d", round, part))
}

func save(dir string, round, part, n int) error {
	return os.WriteFile(file(dir, round, part), []byte(strconv.Itoa(n)), 0o600)
}

func load(dir string, round, part int) (int, error) {
	data, err := os.ReadFile(file(dir, round, part))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// report is what a worker tells the parent. It reports that it waits before it
// does so, and that it goes on after the barrier let it through.
type report struct {
	Worker, Round, Part int
	What                what
	Sum                 int `json:",omitempty"`
}

type what string

const (
	waits    what = "waits"    // for the others
	computes what = "computes" // its part
	merges   what = "merges"   // all parts of the round
	merged   what = "merged"   // them, and has the sum
	through  what = "through"  // with all rounds
)
