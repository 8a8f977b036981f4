package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// faults breaks servers and processes at random.
type faults struct {
	*soak
	rand *rand.Rand

	mu    sync.Mutex
	count map[string]int // by kind, and whether a leader or a follower was hit
}

// A fault begins, lasts, and ends. The server serves again some time after its end.
type fault struct {
	name       string
	begin, end func(*zkserver.Node, context.Context) error
	kinds      [2]judge.Kind
}

var (
	killed    = fault{"killed", (*zkserver.Node).Kill, (*zkserver.Node).Start, [2]judge.Kind{judge.Broken, judge.Broken}}
	stopped   = fault{"stopped", (*zkserver.Node).Pause, (*zkserver.Node).Unpause, [2]judge.Kind{judge.Broken, judge.Broken}}
	cutOff    = fault{"cut off", (*zkserver.Node).Cut, (*zkserver.Node).Heal, [2]judge.Kind{judge.Cut, judge.Healed}}
	restarted = fault{"restarted", (*zkserver.Node).Stop, (*zkserver.Node).Start, [2]judge.Kind{judge.Broken, judge.Broken}}
)

// mix is what happens to servers, of which one is chosen, and to processes, each as often as it is
// there.
type mix struct {
	servers   ofServers
	processes ofProcesses
}

type (
	ofServers   = []func(f *faults, ctx context.Context, node *zkserver.Node, role string) error
	ofProcesses = []func(f *faults, ctx context.Context)
)

// serverIs is the function of a mix that breaks the server for a time.
func serverIs(k fault) func(*faults, context.Context, *zkserver.Node, string) error {
	return func(f *faults, ctx context.Context, node *zkserver.Node, role string) error {
		return f.once(ctx, node, role, k, f.duration())
	}
}

// mixes are the values of -faults.
var mixes = map[string]mix{
	faultsAll: {
		ofServers{
			(*faults).two, (*faults).flap, (*faults).flap, serverIs(killed), serverIs(killed), serverIs(killed),
			serverIs(stopped), serverIs(cutOff), (*faults).rollServers,
		},
		ofProcesses{
			(*faults).killProcess, (*faults).killProcess, (*faults).stopProcess, (*faults).stopProcess, (*faults).stopProcess,
			(*faults).stopProcess, (*faults).rollProcesses,
		},
	},
	"kill":            {ofServers{serverIs(killed)}, ofProcesses{(*faults).killProcess}},
	"stop":            {ofServers{serverIs(stopped)}, ofProcesses{(*faults).stopProcess}},
	faultsCut:         {ofServers{serverIs(cutOff), (*faults).flap}, nil},
	"rolling":         {nil, ofProcesses{(*faults).rollProcesses}},
	"rolling-servers": {ofServers{(*faults).rollServers}, nil},
}

// The mixes that cut servers off from each other. faultsAll has everything.
const (
	faultsAll = "all"
	faultsCut = "cut"
)

// ofServers breaks servers until ctx ends, and leaves all of them whole.
func (f *faults) ofServers(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx)
	for all := mixes[f.options.faults].servers; len(all) > 0; {
		pause(ctx, f.between(time.Second, 7*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		leader, err := f.ensemble.Leader(lasting)
		if err != nil {
			return err
		}
		node, role := leader, "leader"
		if f.oneIn(2) {
			node, role = f.other(leader), "follower"
		}
		err = all[f.number(len(all))](f, ctx, node, role)
		if notServing := f.allServe(lasting); notServing != nil {
			return notServing // and so a fault may not have ended
		}
		if err != nil {
			return err
		}
		if err := f.consistent(lasting); err != nil {
			return err
		}
	}
	return nil
}

// stateDiffers is the name of a fault of ZooKeeper's own: a server's state is not that of
// the leader. If such a server comes to lead, data are lost, which no recipe can make up
// for: then a violation may be ZooKeeper's.
const stateDiffers = "state differed"

// consistent asks the servers whether their states have the digests that the leader has
// computed. A server whose state differs is wiped, and gets the state of the others. A digest
// knows nothing of ACLs, so this says nothing of what the library does with them.
func (f *faults) consistent(ctx context.Context) error {
	for _, n := range f.ensemble.Nodes {
		metrics, err := n.Command(ctx, "mntr")
		if err != nil {
			if err := f.serves(ctx, n); err != nil {
				return err
			}
			continue // again; it is asked after the next fault
		}
		if strings.Contains(metrics, "not currently serving") {
			continue // again; it is asked after the next fault
		}
		found := mismatches.FindStringSubmatch(metrics)
		if found == nil {
			return fmt.Errorf("%s counts no digests that do not match: %.200q", n, metrics)
		}
		if found[1] == "0" {
			continue
		}
		f.add(stateDiffers)
		fmt.Printf("%s: its state differs after %s transactions, it is wiped\n", n, found[1])
		if err := f.wipe(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// wipe deletes a server's data, but only if it can read them: what the library has done to
// them must not be hidden.
func (f *faults) wipe(ctx context.Context, n *zkserver.Node) error {
	f.tell(judge.Broken, n, "wiped, because its state differs")
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	if err := f.serves(ctx, n); err != nil {
		return err
	}
	if err := n.Wipe(ctx); err != nil {
		return f.notServing(n, err)
	}
	f.tell(judge.Broken, n, "no longer wiped")
	return nil
}

var mismatches = regexp.MustCompile(`(?m)^zk_digest_mismatches_count\s+(\d+)$`)

// once breaks a server for a time.
func (f *faults) once(ctx context.Context, node *zkserver.Node, role string, k fault, d time.Duration) error {
	lasting := context.WithoutCancel(ctx)
	f.add(role + " " + k.name)
	f.tell(k.kinds[0], node, fmt.Sprintf("%s %s for %v", role, k.name, d.Round(time.Millisecond)))
	if err := k.begin(node, lasting); err != nil {
		fmt.Printf("%v cannot be %s: %v\n", node, k.name, err)
		f.add("failed")
		d = 0
	}
	pause(ctx, d)
	err := patiently(lasting, func() error { return k.end(node, lasting) })
	f.tell(k.kinds[1], node, "no longer "+k.name)
	return err
}

// patiently ends a fault, and tries again for some time.
func patiently(ctx context.Context, end func() error) (err error) {
	for range 20 {
		if err = end(); err == nil {
			return nil
		}
		pause(ctx, 500*time.Millisecond)
	}
	return err
}

// two stops two servers, so that there is no majority.
func (f *faults) two(ctx context.Context, node *zkserver.Node, _ string) error {
	d, k := f.duration(), f.killedOrStopped()
	return each([]*zkserver.Node{node, f.other(node)}, func(n *zkserver.Node) error { return f.once(ctx, n, "majority", k, d) })
}

func (f *faults) killedOrStopped() fault { return []fault{killed, stopped}[f.number(2)] }

// flap cuts a server off again and again, for a short time each.
func (f *faults) flap(ctx context.Context, node *zkserver.Node, role string) error {
	f.add(role + " flapped")
	for range 3 + f.number(6) {
		if err := f.once(ctx, node, role, cutOff, f.between(50*time.Millisecond, 800*time.Millisecond)); err != nil {
			return err
		}
		pause(ctx, f.between(50*time.Millisecond, 800*time.Millisecond))
	}
	return nil
}

// rollServers restarts one server after the other, as an upgrade does: each serves again before the
// next one stops, and the one that was given is the last.
func (f *faults) rollServers(ctx context.Context, node *zkserver.Node, _ string) error {
	for _, n := range append(f.others(node), node) {
		if err := f.once(ctx, n, "server", restarted, f.between(0, 2*time.Second)); err != nil {
			return err
		}
		if err := f.serves(context.WithoutCancel(ctx), n); err != nil {
			return err
		}
	}
	return nil
}

// ofProcesses stops, kills and restarts processes until ctx ends, and leaves them running.
func (f *faults) ofProcesses(ctx context.Context) {
	for all := mixes[f.options.faults].processes; len(all) > 0; {
		pause(ctx, f.between(5*time.Second, 15*time.Second))
		if ctx.Err() != nil {
			return
		}
		all[f.number(len(all))](f, ctx)
	}
}

// victim returns the one process that is stopped and killed.
func (f *faults) victim() int { return f.options.processes }

func (f *faults) killProcess(ctx context.Context) {
	f.add("process killed")
	f.fleet.kill(f.victim())
	pause(ctx, f.between(0, 3*time.Second))
	f.fleet.start(f.victim())
}

func (f *faults) stopProcess(ctx context.Context) {
	f.add("process stopped")
	f.fleet.suspend(f.victim())
	pause(ctx, f.duration())
	f.fleet.resume(f.victim())
}

// rollProcesses has one process after the other end and start again, as a deployment does.
func (f *faults) rollProcesses(ctx context.Context) {
	for i := range f.options.processes {
		if ctx.Err() != nil {
			return
		}
		f.add("process restarted")
		f.fleet.retire(i + 1)
		pause(ctx, f.between(0, 2*time.Second))
		f.fleet.start(i + 1)
		pause(ctx, f.between(time.Second, 4*time.Second))
	}
}

func (f *faults) tell(kind judge.Kind, node *zkserver.Node, what string) {
	f.court.take(judge.Event{Kind: kind, Server: node.Addr(), Err: what})
}

func (f *faults) other(node *zkserver.Node) *zkserver.Node {
	for {
		if n := f.ensemble.Nodes[f.number(len(f.ensemble.Nodes))]; n != node {
			return n
		}
	}
}

func (f *faults) add(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[what]++
}

func (f *faults) number(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(n)
}

func (f *faults) oneIn(n int) bool { return f.number(n) == 0 }

func (f *faults) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.number(int(most-least)))
}

// duration returns how long a fault lasts: mostly less than a session timeout, now and
// then up to twice that.
func (f *faults) duration() time.Duration {
	switch f.number(5) {
	case 0, 1:
		return f.between(timeout/50, timeout/3)
	case 2, 3:
		return f.between(timeout/3, timeout)
	}
	return f.between(timeout, 2*timeout)
}
