// Soak runs all recipes at once, for long, on an ensemble whose servers are killed,
// stopped, cut off from each other and flapped at random, and judges what happens.
//
//	go run ./internal/soak -minutes 60 -seed 1
//	go run ./internal/soak -minutes 10 -faults rolling
//	go run ./internal/soak -kills 50
//	go run ./internal/soak -losses 8
//
// Three servers run in containers. Of four processes, each of which uses all recipes, one is
// stopped and killed at random too. Now and then all servers, or all processes, are restarted one
// after the other, as an upgrade or a deployment does it. -faults leaves only one kind of faults:
// kill, stop, cut (off), rolling (processes) or rolling-servers. A process has one client for all recipes, and another one
// that has one lock at a time. The processes report to a judge
// (package judge). It judges while the soak runs, and at the end that nothing is left
// behind. Every half minute some lines say how often somebody was served, which faults there were,
// what the processes use, and the longest times in which nobody was served although somebody waited,
// beside that in which the ensemble carried out no plain client's write.
//
// With -kills there is one standalone server instead. It is killed every few seconds, and
// started again at once. The run ends with the first start that fails, and the line "starts:"
// says how many have succeeded.
//
// With -losses the three servers lose their last transactions, again and again, as if they had
// no volumes or a backup were put back: one is stopped for some seconds, the two others then lose
// their disks, and have only what the one knows. The judge allows what that explains (see the
// judge's loss.go): what was acknowledged in these seconds is in doubt. Everything else must hold,
// and a session timeout after a plain client can write again, each process must be served by each recipe.
//
// At the end the processes first give back everything and keep their sessions. Then no place,
// slot, claim or member must be left. A process in which a call hangs does not end in time, which is a
// violation.
//
// All servers write snapshots often, slowly because of 40,000 other znodes, and under load. A
// server that starts reads the newest one and the transactions after it. If it does not serve
// within five minutes after a fault, that is a violation, printed with the end of its log.
//
// A violation is printed with the events that led to it, and the exit status is 1. It is
// 2 if the run proves nothing, for example because some recipe was hardly used. Among the
// faults, "state differed" is ZooKeeper's own: a server did not have the state of the
// leader, and was wiped, if it could read its data. A violation after that may be ZooKeeper's.
// The seed decides the faults and what workers do, but not when they do it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the settings of a run.
type options struct {
	minutes   float64
	seed      uint64
	processes int
	kills     int // how often one server is killed; 0: three servers
	losses    int // how often three servers lose transactions; 0: all kinds of faults
	faults    string
}

// timeout is that of the sessions.
const timeout = 4 * time.Second

// check refuses options that make no sense.
func (o options) check() error {
	switch {
	case o.kills > 0 && o.losses > 0:
		return errors.New("-kills and -losses exclude each other")
	case (o.kills > 0 || o.losses > 0) && o.faults != faultsAll:
		return errors.New("-faults is of no use with -kills and -losses")
	}
	if _, ok := mixes[o.faults]; !ok {
		return fmt.Errorf("-faults %s: none of %s", o.faults, mixNames())
	}
	return nil
}

func mixNames() string { return strings.Join(slices.Sorted(maps.Keys(mixes)), ", ") }

// errViolated is returned if the judge found violations, which are printed by then.
var errViolated = errors.New("violations")

func main() {
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		if err := runWorker(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "soak: worker:", err)
			os.Exit(1)
		}
		return
	}
	o := options{processes: 4}
	flag.Float64Var(&o.minutes, "minutes", 5, "how long faults occur")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "decides the faults and what workers do")
	flag.IntVar(&o.kills, "kills", 0, "how often one standalone server is killed and started again, instead of -minutes of faults")
	flag.IntVar(&o.losses, "losses", 0, "how often the three servers lose their last transactions, instead of -minutes of faults")
	flag.StringVar(&o.faults, "faults", faultsAll, "which faults there are: "+mixNames())
	flag.Parse()
	if o.kills > 0 {
		o.processes = 16
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := o.check()
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		if errors.Is(err, errViolated) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}
