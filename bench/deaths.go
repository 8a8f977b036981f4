package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// deadAfter is the timeout of the sessions, leases and keys of holders that die: the least
// that the lab's server grants.
const deadAfter = 4 * time.Second

// death is how long the lock of a process that was killed was held on, each time.
type death struct {
	System string
	times  []time.Duration
}

func (d death) Least() time.Duration  { return slices.Min(d.times) }
func (d death) Most() time.Duration   { return slices.Max(d.times) }
func (d death) Median() time.Duration { return slices.Sorted(slices.Values(d.times))[len(d.times)/2] }

func (l *lab) deaths(ctx context.Context, systems []system, rounds int) ([]death, error) {
	fx := l.fixture(ctx, limit)
	defer fx.close()
	list := make([]death, len(systems))
	for range rounds {
		if err := each(len(systems), func(i int) error {
			took, err := systems[i].die(fx)
			if err != nil {
				return fmt.Errorf("%s: %w", systems[i].name, err)
			}
			list[i] = death{systems[i].name, append(list[i].times, took)}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// die kills a process that holds a lock, and measures until a client has it that waits.
func (s system) die(fx *fixture) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	path := fx.path + "/death"
	holder, _, err := startWorker(fx.ctx, []string{self, holdMode, s.name, s.addr, path})
	if err != nil {
		return 0, err
	}
	defer holder.end()
	waiter, end, err := s.open(fx.ctx, s.addr, path, deadAfter)
	if err != nil {
		return 0, err
	}
	defer end()
	got := make(chan error, 1)
	go func() { got <- waiter.lock() }()
	// Heartbeats come every third of the timeout. The death is at any time between two.
	select {
	case err := <-got:
		return 0, fmt.Errorf("taken while another process held it: %v", err)
	case <-time.After(deadAfter + rand.N(deadAfter/3)):
	}
	at := time.Now()
	if err := holder.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	if err := <-got; err != nil {
		return 0, err
	}
	took := time.Since(at)
	return took, waiter.unlock()
}

// holdMode is the first argument of a process that holds a lock until it is killed.
const holdMode = "hold"

// holdLock holds the lock of a system: its arguments are the system, its address and a path.
func holdLock(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	open := map[string]opener{ours: openZooKeeper, forced: openZooKeeper, etcd: openEtcd, redisS: openRedis}[args[0]]
	l, _, err := open(ctx, args[1], args[2], deadAfter)
	if err == nil {
		err = l.lock()
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ok")
	_, err = io.Copy(io.Discard, stdin)
	return err
}
