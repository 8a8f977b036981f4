// Election shows an elected leader that survives its worst days. Several processes
// campaign, and the leader alone writes to a journal. The first leader is killed, and the
// second one is made to stand still for longer than its session lives.
//
//	go run ./examples/election [-candidates 3] [-writes 5] [-zk host:port,...]
//
// Each write is a Term.Commit. The servers apply it only while the candidate leads, so
// the leader that stood still cannot write when it wakes up, although it has not resigned.
// The program draws who led and when, as an observer of the election sees it. It ends
// with an error if a write of an earlier leader came after one of a later leader.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest to the
// others on loopback. A candidate is made to stand still by SIGSTOP, which needs Unix.
//
// Copy from candidate.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("election", parent, map[string]demo.Role{"candidate": demo.Play(campaign)})
}

// parent creates the journal, runs the candidates, and judges what they reported.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("election")
	candidates := flags.Processes("candidates", 3, 3, "number of candidate processes")
	writes := flags.Count("writes", 5, 1, "writes of each leader before something happens to it")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d candidates, one leader; requested session timeout: %v\n\n", *candidates, sessionTimeout)

	client, err := env.Dial(ctx, "parent", sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := create(ctx, client); err != nil {
		return err
	}
	board := newBoard(os.Stdout, *candidates, *writes)
	observing, done := context.WithCancel(ctx)
	var observer sync.WaitGroup
	observer.Go(func() { observe(observing, client, board) })

	crew := demo.Workers(*candidates, "candidate", func(i int) any { return params{Env: env, ID: i} })
	take := func(r report) (do demo.Action, candidate int) {
		if do, candidate = board.take(r); do == demo.Thaw {
			time.Sleep(200 * time.Millisecond) // so that the board shows the new leader at work
		}
		return do, candidate
	}
	return demo.Run(ctx, crew, take, func(ctx context.Context, complete bool) (string, error) {
		done()
		observer.Wait()
		version, err := remove(ctx, client)
		if err != nil {
			return "", err
		}
		return board.settle(version, complete)
	})
}

// observe draws each change of leader.
func observe(ctx context.Context, client *zkrecipes.Client, board *board) {
	for leader, err := range zkrecipes.NewElection(client, electionPath).Observe(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				board.fail(err)
			}
			return
		}
		board.see(leader)
	}
}

// create creates the journal, as a leader.
func create(ctx context.Context, client *zkrecipes.Client) error {
	term, err := zkrecipes.NewElection(client, electionPath).Campaign(ctx, []byte("parent"))
	if err != nil {
		return err
	}
	_, err = term.Commit(ctx, zkrecipes.OpCreate(journalPath, nil, 0, nil))
	if resigned := term.Resign(); err == nil {
		err = resigned
	}
	return err
}

// remove deletes the journal, as a leader, and returns its version.
func remove(ctx context.Context, client *zkrecipes.Client) (version int32, err error) {
	err = zkrecipes.NewElection(client, electionPath).Lead(ctx, []byte("parent"), func(ctx context.Context, term *zkrecipes.Term) error {
		_, stat, err := term.Get(ctx, journalPath)
		if err != nil {
			return err
		}
		version = stat.Version
		_, err = term.Commit(ctx, zkrecipes.OpDelete(journalPath, stat.Version))
		return err
	})
	return version, err
}
