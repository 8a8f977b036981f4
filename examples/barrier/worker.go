package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// size is how many numbers a round goes through.
const size = 100_000

// work is the life of a worker.
func work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("barrier worker", flag.ExitOnError)
	id := flags.Int("id", 0, "number of this worker")
	workers := flags.Int("workers", 0, "of all")
	rounds := flags.Int("rounds", 0, "to go through")
	dir := flags.String("dir", "", "for the parts")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := zkrecipes.Dial(ctx, strings.Split(*list, ","), &zkrecipes.Options{
		Prefix: *prefix, Identity: "worker " + name(*id),
	})
	if err != nil {
		return err
	}
	defer client.Close()

	barrier := zkrecipes.NewBarrier(client, "/primes", *workers)
	for round := range *rounds {
		report{Worker: *id, What: waits, Round: round}.tell()
		part, err := barrier.Wait(ctx) // until all are there
		if err != nil {
			return err
		}
		report{Worker: *id, What: computes, Round: round, Part: part}.tell()
		from, to := rangeOf(round, part, *workers)
		pause(ctx, rand.N(300*time.Millisecond)) // some are slower
		if err := save(*dir, round, part, primes(from, to)); err != nil {
			return err
		}

		report{Worker: *id, What: waits, Round: round}.tell()
		lead, err := barrier.Wait(ctx) // until all parts are
		if err != nil {
			return err
		}
		if lead != 0 {
			continue // the others wait for the merger in the next round
		}
		report{Worker: *id, What: merges, Round: round}.tell()
		sum := 0
		for part := range *workers {
			n, err := load(*dir, round, part)
			if err != nil {
				return err
			}
			sum += n
		}
		pause(ctx, 100*time.Millisecond)
		report{Worker: *id, What: merged, Round: round, Sum: sum}.tell()
	}
	report{Worker: *id, What: through}.tell()
	return nil
}

// rangeOf returns the numbers of a part, the first and the one after the last.
func rangeOf(round, part, parts int) (from, to int) {
	from = round * size
	return from + size*part/parts, from + size*(part+1)/parts
}

// primes counts the primes from one number up to, and without, another.
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

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// report is what a worker tells the parent: that it waits before it does, and
// that it goes on after it was let through.
type report struct {
	Worker, Round, Part int
	What                what
	Sum                 int `json:",omitempty"`
}

type what string

const (
	waits    what = "waits"
	computes what = "computes"
	merges   what = "merges"
	merged   what = "merged"
	through  what = "through"
)

func (r report) tell() { demo.Tell(r) }
