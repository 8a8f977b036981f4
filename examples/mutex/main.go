// Mutex shows a lock at work: some processes add to one counter, a znode,
// under one lock, and one of them is killed while it holds. It is what
// `make demo` of the README runs.
//
//	go run ./examples/mutex [-workers 4] [-rounds 5] [-zk host:port,...]
//
// Each addition is a lease.Commit, so it is made only if the lock is still
// held, and leaves its fencing token beside the sum. The program draws who held
// the lock and when, and ends with an error if an addition was lost.
//
// Without -zk the first process is the ZooKeeper too: it serves package zktest
// on loopback to the others. `make demo-zk` gives them a real one.
//
// worker.go is the part to copy from; the rest starts processes and draws.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	lockPath    = "/lock"
	counterPath = "/counter"

	// sessionTimeout is short for the sake of the demo: for so long the lock of
	// the killed worker is kept. A service rather has 10 s or more.
	sessionTimeout = 2 * time.Second

	victim = 2 // the worker that is killed
)

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	run := demo
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		run = work
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutex:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutex", flag.ExitOnError)
	workers := flags.Int("workers", 4, "number of worker processes, 2 to 26")
	rounds := flags.Int("rounds", 5, "additions each worker makes")
	list := flags.String("zk", "", "servers to use, `host:port,...` (default: one in this process)")
	flags.Parse(args)
	if *workers < 2 || *workers > 26 || *rounds < 1 || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("2 to 26 workers, one round or more, and no other arguments")
	}

	how := "given by -zk"
	if *list == "" {
		srv, err := zktest.Start()
		if err != nil {
			return err
		}
		defer srv.Close()
		*list, how = srv.Addr(), "package zktest in this process, not a real server; -zk takes one"
	}
	servers := strings.Split(*list, ",")
	fmt.Printf("ZooKeeper: %s (%s)\n", *list, how)
	fmt.Printf("%d workers, %d additions each, under one lock; session timeout asked for: %v\n\n", *workers, *rounds, sessionTimeout)

	// The prefix goes by itself when it is empty: it is made of containers.
	prefix := "/zkrecipes-demo-" + strings.ToLower(rand.Text()[:8])
	client, err := dial(ctx, servers, prefix, "parent")
	if err != nil {
		return err
	}
	defer client.Close()
	lock := zkrecipes.NewMutex(client, lockPath)
	if err := create(ctx, lock); err != nil {
		return err
	}

	board := newBoard(os.Stdout, *workers)
	runErr := runWorkers(ctx, board, *workers, *rounds, "-zk", *list, "-prefix", prefix)

	end, err := remove(context.WithoutCancel(ctx), lock) // also after Ctrl-C
	if err != nil {
		return errors.Join(runErr, err)
	}
	verdict, err := board.settle(end)
	if err == nil {
		fmt.Println()
		fmt.Println(verdict)
	}
	return errors.Join(runErr, err)
}

// create makes the counter.
func create(ctx context.Context, lock *zkrecipes.Mutex) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		zero := counter{token: lease.Token()}
		_, err := lease.Commit(ctx, &zk.CreateRequest{Path: counterPath, Data: zero.bytes()})
		return err
	})
}

// remove deletes the counter and returns what it was.
func remove(ctx context.Context, lock *zkrecipes.Mutex) (end counter, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		data, stat, err := lease.Get(ctx, counterPath)
		if err != nil {
			return err
		}
		if end, err = parseCounter(data); err != nil {
			return err
		}
		_, err = lease.Commit(ctx, &zk.DeleteRequest{Path: counterPath, Version: stat.Version})
		return err
	})
	return end, err
}

func dial(ctx context.Context, servers []string, prefix, identity string) (*zkrecipes.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		SessionTimeout: sessionTimeout,
		Prefix:         prefix,
		Identity:       identity,
	})
}

// runWorkers runs the workers until all have ended, and kills one of them while
// it holds the lock.
func runWorkers(ctx context.Context, board *board, workers, rounds int, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// All workers write to one pipe: what they tell comes in the order in which
	// it was told, and a short line is never torn apart.
	reports, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	// And all read from one, to which nothing is ever written: its end tells them
	// to stop. It ends with this process too, however that goes.
	leash, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer leash.Close()
	context.AfterFunc(ctx, func() { held.Close() })
	defer held.Close()

	killRound := (rounds + 1) / 2
	processes := make([]*exec.Cmd, workers)
	for i := range processes {
		id := i + 1
		cmd := exec.Command(self, append([]string{"worker", "-id", strconv.Itoa(id), "-rounds", strconv.Itoa(rounds)}, args...)...)
		if id == victim {
			cmd.Args = append(cmd.Args, "-linger", strconv.Itoa(killRound))
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = leash, told, os.Stderr
		if err = cmd.Start(); err != nil {
			held.Close()
			break
		}
		processes[i] = cmd
	}
	told.Close() // so that reports ends with the last worker

	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintf(os.Stderr, "mutex: a worker said %q\n", lines.Text())
			continue
		}
		board.take(r)
		if r.Worker == victim && r.Round == killRound && r.What == holds {
			time.Sleep(100 * time.Millisecond) // for the picture
			processes[victim-1].Process.Kill() // SIGKILL: it cannot clean up
			board.kill(victim)
		}
	}
	for i, cmd := range processes {
		if cmd == nil { // not started
			continue
		}
		if waitErr := cmd.Wait(); waitErr != nil && !board.killed(i+1) {
			err = errors.Join(err, fmt.Errorf("worker %d: %w", i+1, waitErr))
		}
		if n := board.made(i + 1); n < rounds && !board.killed(i+1) && ctx.Err() == nil {
			err = errors.Join(err, fmt.Errorf("worker %d made %d of %d additions", i+1, n, rounds))
		}
	}
	if ctx.Err() != nil {
		return errors.Join(err, errInterrupted)
	}
	return errors.Join(err, lines.Err())
}
