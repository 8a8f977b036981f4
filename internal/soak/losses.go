package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// behind is how much a server may lack that has just stopped, and how long a process may take to report what it
// was told before the servers were gone.
const behind = time.Second

// losses lets the ensemble lose transactions, for as many times as the options say.
func (f *faults) losses(ctx context.Context) error {
	for n := range f.options.losses {
		pause(ctx, f.between(3*time.Second, 6*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		if err := f.lose(context.WithoutCancel(ctx), n); err != nil {
			return err
		}
		if err := f.goesOn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// goesOn waits until the judge has seen what is served after a loss. If a process was not served
// something, it prints who has what, and the run ends.
func (f *faults) goesOn(ctx context.Context) error {
	waits, stands := true, false
	look := func() bool {
		f.court.do(func(j *judge.Judge) {
			waits = j.AfterLoss()
			stands = slices.ContainsFunc(j.Violations(), func(v judge.Violation) bool { return v.Rule == judge.RuleLost })
		})
		return !waits
	}
	f.until(ctx, 2*time.Minute, look)
	switch look(); {
	case stands:
		fmt.Println("ephemeral znodes, their sessions, and the processes that made them:")
		f.printEphemerals(root)
		return errViolated
	case waits && ctx.Err() == nil:
		return errors.New("the ensemble did not recover from a loss: this run proves nothing")
	}
	return nil
}

// lose stops a server for some time, in which the others go on. Then these lose their
// disks, and get that server's data.
func (f *faults) lose(ctx context.Context, n int) error {
	leader, err := f.ensemble.Leader(ctx)
	if err != nil {
		return err
	}
	// The stale server goes on with what it knows. If it led, the others elect a leader while it misses what
	// they do. Its next epoch then has the number of theirs, so it refuses the sessions that have seen that
	// until it has come as far.
	stale, role := leader, "leader"
	if n%3 != 2 {
		stale, role = f.other(leader), "follower"
	}
	others := f.others(stale)
	k := f.killedOrStopped()
	d := f.between(timeout/2, 2*timeout)
	f.add(fmt.Sprintf("lost since a %s was %s", role, k.name))
	before, err := f.epoch(ctx, stale)
	if err != nil {
		return err
	}
	from := f.now() - behind
	f.tell(judge.Broken, stale, fmt.Sprintf("%s %s, and will miss what comes", role, k.name))
	if err := k.begin(stale, ctx); err != nil {
		return err
	}
	leader, err = f.ensemble.Leader(ctx, stale)
	if err != nil {
		return err
	}
	pause(ctx, d)
	after, err := f.epoch(ctx, leader)
	if err != nil {
		return err
	}
	if err := each(others, func(n *zkserver.Node) error { return errors.Join(n.Kill(ctx), n.Erase(ctx)) }); err != nil {
		return err
	}
	pause(ctx, behind)
	f.court.take(judge.Event{
		Kind: judge.Lost, At: f.now(), From: from, Refused: after > before,
		Err: fmt.Sprintf("epochs %d to %d, %v without %v", before, after, f.now()-from, stale),
	})
	if err := k.end(stale, ctx); err != nil {
		return err
	}
	if err := others[0].Start(ctx); err != nil { // both at once could do without the stale one
		return err
	}
	if err := f.plain.connect(); err != nil {
		return err
	}
	leader, err = f.ensemble.Leader(ctx, others[1])
	if err != nil {
		return err
	}
	if leader != stale {
		return fmt.Errorf("%v leads after a loss, and not %v: this run proves nothing", leader, stale)
	}
	if err := others[1].Start(ctx); err != nil {
		return err
	}
	return f.allServe(ctx)
}

func (f *faults) others(node *zkserver.Node) (others []*zkserver.Node) {
	for _, n := range f.ensemble.Nodes {
		if n != node {
			others = append(others, n)
		}
	}
	return others
}

var lastZxid = regexp.MustCompile(`(?m)^Zxid: (0x[0-9a-f]+)$`)

// epoch returns the epoch of a server.
func (f *faults) epoch(ctx context.Context, n *zkserver.Node) (int64, error) {
	answer, err := n.Command(ctx, "srvr")
	if err != nil {
		return 0, err
	}
	found := lastZxid.FindStringSubmatch(answer)
	if found == nil {
		return 0, fmt.Errorf("%v tells no zxid: %q", n, answer)
	}
	zxid, err := strconv.ParseInt(found[1], 0, 64)
	return zxid >> 32, err
}

// each calls g for all nodes at once.
func each(nodes []*zkserver.Node, g func(*zkserver.Node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = g(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
