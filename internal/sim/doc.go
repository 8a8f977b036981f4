// Package sim runs the library against zktest in simulated time, under random
// faults, and checks what it did. It has only tests.
//
// # Running
//
// Each test is the simulation of one recipe and runs many seeds of it. A seed
// decides the clients, their workers, the faults and most of their moments.
//
//	go test ./internal/sim                           # 50 seeds of each
//	go test ./internal/sim -run Queue -seeds 10000   # more of one
//	go test -race -run '^TestQueueSimulation$' ./internal/sim
//
// With the race detector the default is 20 seeds, meant to be run one simulation
// a process: the detector's own run time fails in processes that do much more.
// From 200 seeds on, a simulation also fails if one of the events that it is there
// to provoke never happened.
//
// # Reproducing a seed
//
// A failure names its seed, how many of 20 further runs of that seed failed, and
// the log of the first. To run it alone:
//
//	go test -v ./internal/sim -run '^TestQueueSimulation$' -first 4711 -seeds 1
//
// A seed fixes what is attempted, not how goroutines interleave, so a failure may
// take a few runs to come back (-count 100).
//
// # How it is built
//
// One run is a synctest bubble with a world in it: a zktest server, processes
// with one client each, and the network between them (world_*). Faults come from
// the server's plan, the network, the processes, an operator and other libraries'
// clients. When the phase of faults is over, the world must come to rest.
//
// Each recipe adds a workload (*_world). Its workers call the library, turn by turn (*_worker,
// queue_producer, queue_consumer). Its observer follows every change that the
// server applies, and knows the names on the wire but none of the library's code
// (*_observer, world_history). In the end what callers were told is compared with what the
// observer saw (checkAtRest). What the workers hold and write under it goes to internal/judge, which
// judges the soak, too (holds).
//
// # Adding an invariant
//
// If the soak can see a breach, too, the rule belongs in internal/judge. Otherwise report
// the breach with world.log.violation, at the first place where it can be
// known: in the observer's onChange if the server's state alone is wrong, in the
// worker if a reply contradicts what the observer has seen, in checkAtRest if it
// takes the whole run. Count the situation that the invariant is about with
// world.events.add and list the event with the workload's events, so that a
// simulation that never gets there fails. Then break the library on purpose, and
// keep the edit in internal/mutants.
package sim
