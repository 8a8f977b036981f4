// Soak runs all recipes at once, for long, on an ensemble whose servers are killed,
// stopped, cut off from each other and flapped at random, and judges what happens.
//
//	go run ./internal/soak -minutes 60 -seed 1
//
// Three servers run in containers. Of four processes, each of which uses all recipes in
// one session, one is stopped and killed at random too. The processes report to a judge
// (package judge). It judges while the soak runs, and at the end that nothing is left
// behind. Every half minute a line says what was done, which faults there were, and the
// longest times in which nobody was served although somebody waited, beside that in
// which the ensemble carried out no plain client's write.
//
// A violation is printed with the events that led to it, and the exit status is 1. It is
// 2 if the run proves nothing, for example because some recipe was hardly used. Among the
// faults, "state differed" is ZooKeeper's own: a server did not have the state of the
// leader, and was wiped. A violation after that may be ZooKeeper's.
// The seed decides the faults and what workers do, but not when they do it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the settings of a run.
type options struct {
	minutes   float64
	seed      uint64
	processes int
	timeout   time.Duration
}

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
	var o options
	flag.Float64Var(&o.minutes, "minutes", 5, "how long faults occur")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "decides the faults and what workers do")
	flag.IntVar(&o.processes, "processes", 4, "worker processes, the last of which is stopped and killed")
	flag.DurationVar(&o.timeout, "timeout", 4*time.Second, "session timeout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		if errors.Is(err, errViolated) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}
