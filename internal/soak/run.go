package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/soak/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// snapshotFlag makes a leader send its whole state to a follower that joins again.
// Otherwise it sends only what the follower lacks, and up to 3.9.3 that loses transactions
// now and then under such faults, so that the servers' states differ from then on
// (ZOOKEEPER-4394, 4646, 4785, 4925; with 3.8.0 it takes seconds).
const snapshotFlag = "-Dzookeeper.forceSnapshotSync=true"

// soak is a run.
type soak struct {
	options
	start    time.Time // without a monotonic reading, see Params
	ensemble *zkserver.Ensemble
	court    *court
	fleet    *fleet
	plain    *plain
	faults   *faults
}

func run(ctx context.Context, o options) (err error) {
	provider, err := zkserver.Find(ctx, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	// As in the tests of an ensemble: a short initLimit, since now and then two servers
	// do not agree which of them leads.
	ensemble, err := provider.StartEnsemble(ctx, 3, zkserver.Config{
		TickTime: 200 * time.Millisecond,
		Extra:    map[string]string{"initLimit": "15", "maxSessionTimeout": "10000"},
		JVMFlags: []string{snapshotFlag},
	})
	if err != nil {
		return err
	}
	s := &soak{options: o, ensemble: ensemble, start: time.Now().Round(0)}
	fmt.Printf("%s, %v minutes, seed %d, session timeout %v\n", provider, o.minutes, o.seed, o.timeout)
	s.court = newCourt(s.start, judge.Config{
		Timeout: o.timeout, Slack: 2 * time.Second,
		Members: map[string]int{barrierKey: o.processes - 1, doubleKey: o.processes, doubleKey + judge.LeaveSuffix: o.processes},
	})
	if s.plain, err = newPlain(ctx, s.court, ensemble, o.timeout); err != nil {
		return err
	}
	s.fleet = newFleet(s)
	s.faults = &faults{soak: s, rand: rand.New(rand.NewPCG(o.seed, 0)), count: map[string]int{}}
	if err := s.work(ctx); err != nil {
		return err
	}
	return s.verdict()
}

// work runs the processes, the faults, and the end of all.
func (s *soak) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beside sync.WaitGroup
	defer beside.Wait()
	besides, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beside.Go(func() { s.plain.run(besides) })
	beside.Go(func() { s.figures(besides, cancel) })

	for i := range s.processes {
		s.fleet.start(i + 1)
	}
	faulty, end := context.WithTimeout(ctx, time.Duration(s.minutes*float64(time.Minute)))
	defer end()
	var both sync.WaitGroup
	both.Go(func() {
		if err := s.faults.servers(faulty); err != nil {
			cancel(err)
		}
	})
	both.Go(func() { s.faults.processes(faulty, s.processes) })
	both.Wait()
	if err := context.Cause(ctx); err != nil {
		s.fleet.stop()
		return err
	}
	err := s.settle(context.WithoutCancel(ctx))
	s.show()
	return err
}

// settle lets the queues run empty, ends the processes, and judges what remains.
func (s *soak) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := s.ensemble.WaitServing(ctx); err != nil {
		return err
	}
	s.fleet.finish()
	s.until(ctx, time.Minute, func() bool { return s.plain.drained() })
	s.calm(ctx)
	s.fleet.stop()
	s.until(ctx, time.Minute, func() bool { // sessions of killed processes, containers, znodes of acks
		for _, z := range s.plain.tree() {
			if z.Ephemeral || !mayRemain(z.Path) {
				return false
			}
		}
		return true
	})
	tree, versions := s.plain.tree(), s.plain.versions(lockKey, rwKey)
	s.court.do(func(j *judge.Judge) {
		now := s.now()
		j.JudgeUntil(now)
		j.Remains(now, tree, mayRemain)
		j.Drained(now)
		j.Rounds(now, barrierKey)
		for key, version := range versions {
			// A killed process's workers may each have committed without a report.
			j.Commits(judge.Event{At: now, Key: key, Version: version}, 3*s.fleet.kills())
		}
	})
	return nil
}

// calm lets the processes work without faults for longer than the judge is patient, and
// judges that none of their workers hangs.
func (s *soak) calm(ctx context.Context) {
	pause(ctx, s.court.judge.Bound()+2*reportDelay)
	s.court.do(func(j *judge.Judge) {
		moment := s.now() - reportDelay
		j.JudgeUntil(moment)
		j.Silent(moment)
	})
}

// until waits until f returns true, or for a time.
func (s *soak) until(ctx context.Context, most time.Duration, f func() bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !f() && ctx.Err() == nil {
		pause(ctx, 200*time.Millisecond)
	}
}

func (s *soak) now() time.Duration { return time.Since(s.start) }

// court is the judge of a run, for concurrent use.
type court struct {
	start time.Time
	mu    sync.Mutex
	judge *judge.Judge
	shown int // violations
}

func newCourt(start time.Time, cfg judge.Config) *court {
	return &court{start: start, judge: judge.New(cfg)}
}

func (c *court) do(f func(j *judge.Judge)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.judge)
}

// take takes an event that happens now, unless it bears a time.
func (c *court) take(e judge.Event) {
	if e.At == 0 {
		e.At = time.Since(c.start)
	}
	c.do(func(j *judge.Judge) { j.Take(e) })
}
