package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// snapshotFlag makes a leader send its whole state to a follower that joins again.
// Otherwise it sends only what the follower lacks, and up to 3.9.3 that loses transactions
// now and then under such faults, so that the servers' states differ from then on
// (ZOOKEEPER-4394, 4646, 4785, 4925; with 3.8.0 it takes seconds).
const snapshotFlag = "-Dzookeeper.forceSnapshotSync=true"

// snapCountFlag makes a server write a snapshot every 1,000 to 2,000 transactions. It goes on
// with transactions meanwhile, so the snapshot holds some that came after its beginning. Up
// to 3.9.5 the ACLs of these may be missing in it, and then the server cannot start
// (ZOOKEEPER-4689, 4799, 4846).
const snapCountFlag = "-Dzookeeper.snapCount=2000"

// neverUsedFlag makes the servers delete a container in which no place ever was, too. One is
// left if the servers fail between the container and the first place, and all clients give up.
const neverUsedFlag = "-Dznode.container.maxNeverUsedIntervalMs=10000"

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
	servers, cfg := 3, zkserver.Config{
		TickTime: 200 * time.Millisecond,
		Extra:    map[string]string{"initLimit": "15", "maxSessionTimeout": "10000"},
		JVMFlags: []string{snapshotFlag, snapCountFlag, neverUsedFlag},
	}
	length := fmt.Sprintf("%v minutes of faults: %s", o.minutes, o.faults)
	if o.kills > 0 {
		servers, length = 1, fmt.Sprint(o.kills, " kills")
	}
	if o.losses > 0 {
		length = fmt.Sprint(o.losses, " losses")
	}
	ensemble, err := provider.StartEnsemble(ctx, servers, cfg)
	if err != nil {
		return err
	}
	if o.kills == 0 && o.losses == 0 && (o.faults == faultsAll || o.faults == faultsCut) {
		if err := ensemble.Nodes[0].Heal(ctx); err != nil { // of nothing
			return fmt.Errorf("-faults %s cuts servers off, which needs Docker: %w", o.faults, err)
		}
	}
	s := &soak{options: o, ensemble: ensemble, start: time.Now().Round(0)}
	fmt.Printf("%s, %s, %d processes, seed %d\n", provider, length, o.processes, o.seed)
	s.court = newCourt(s.start, judge.Config{
		Timeout: timeout, Slack: 2 * time.Second,
		Members: map[string]int{barrierKey: o.processes - 1, doubleKey: o.processes},
		Slots:   map[string]int{semaphoreKey: slots},
		// A caller of LockAll has the first locks while it waits for the next, and a Redrive moves up to
		// three letters, one after the other.
		Chains: map[string]int{allKey: len(severalKeys), severalKeys[0]: 3, severalKeys[1]: 2, failingKey + judge.RedriveSuffix: 3},
		Queues: map[string]judge.DeadLetters{failingKey: {Key: deadKey, Attempts: failingAttempts}},
		Steady: steadyKeys(),
		Shards: shardKeys(),
	})
	if s.plain, err = newPlain(ctx, s.court, ensemble, o); err != nil {
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
	switch {
	case s.kills > 0:
		both.Go(func() { cancelIf(cancel, s.faults.kills(ctx)) })
	case s.losses > 0:
		both.Go(func() { cancelIf(cancel, s.faults.losses(ctx)) })
	default:
		both.Go(func() { cancelIf(cancel, s.faults.ofServers(faulty)) })
		both.Go(func() { s.faults.ofProcesses(faulty) })
	}
	both.Wait()
	if err := context.Cause(ctx); err != nil {
		s.fleet.stop()
		s.show()
		s.accusations()
		return err
	}
	err := s.settle(context.WithoutCancel(ctx))
	s.show()
	return err
}

func cancelIf(cancel context.CancelCauseFunc, err error) {
	if err != nil {
		cancel(err)
	}
}

// settle lets the queues run empty, ends the processes, and judges what remains.
func (s *soak) settle(ctx context.Context) error {
	if err := s.faults.allServe(ctx); err != nil {
		s.fleet.stop()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s.fleet.send("finish") // nothing more is put
	s.until(ctx, 2*time.Minute, s.plain.drained)
	s.calm(ctx)
	s.fleet.rest(ctx)
	s.remains(ctx, s.court.judge.Bound(), mayRest)
	s.fleet.stop()
	s.remains(ctx, time.Minute, mayRemain) // sessions of killed processes, containers and znodes of acks go
	versions := s.plain.versions(fencedKeys()...)
	count, _ := s.plain.get(counterKey)
	versions[counterKey] = int32(parseCount(count))
	s.court.do(func(j *judge.Judge) {
		now := s.now()
		j.JudgeUntil(now)
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
// judges what must be so then.
func (s *soak) calm(ctx context.Context) {
	pause(ctx, s.court.judge.Bound()+2*reportDelay)
	even, moment := true, s.fleet.reported()
	s.court.do(func(j *judge.Judge) {
		j.JudgeUntil(moment)
		j.Observers(moment)
		even = j.Even(moment, s.processes)
	})
	if !even {
		s.printEphemerals(root + shardsKey + "/")
	}
}

// printEphemerals prints the ephemeral znodes with that prefix, with their sessions and data.
func (s *soak) printEphemerals(prefix string) {
	for _, z := range s.plain.tree() {
		if z.Ephemeral && strings.HasPrefix(z.Path, prefix) {
			fmt.Printf("    %s %s %s\n", z.Path, z.Owner, z.Data)
		}
	}
}

// remains waits for a time until only what may be there is left, and judges that.
func (s *soak) remains(ctx context.Context, most time.Duration, may func(judge.Znode) bool) {
	var tree []judge.Znode
	look := func() bool {
		tree = s.plain.tree()
		return !slices.ContainsFunc(tree, func(z judge.Znode) bool { return !may(z) })
	}
	s.until(ctx, most, look)
	s.court.do(func(j *judge.Judge) { j.Remains(s.now(), tree, may) })
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
