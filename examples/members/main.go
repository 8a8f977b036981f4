// Members shows who is there. Several processes are members of a group. One of them is
// killed, and is a member until its session has expired. Another one stands still for longer
// than its session, and is a member again when it wakes up, without doing anything for it.
//
//	go run ./examples/members [-members 4] [-zk host:port,...]
//
// The program draws who is there, as a watcher of the group sees it. It ends with an error if
// a member was seen that had not joined, or if the one that stood still is not back in another
// session.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest to the
// others on loopback. A member is made to stand still by SIGSTOP, which needs Unix.
//
// Copy from member.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("members", parent, map[string]demo.Role{"member": demo.Play(belong)})
}

// parent runs the members, and watches them.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("members")
	members := flags.Processes("members", 4, 3, "number of member processes")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d members; requested session timeout: %v\n\n", *members, sessionTimeout)

	client, err := env.Dial(ctx, "parent", sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	board := newBoard(os.Stdout, *members)
	watching, done := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { watch(watching, client, board) })

	crew := demo.Workers(*members, "member", func(i int) any { return params{Env: env, ID: i} })
	take := func(report) (demo.Action, int) { return board.next() } // members report all the time
	return demo.Run(ctx, crew, take, func(_ context.Context, complete bool) (string, error) {
		done()
		watcher.Wait()
		return board.settle(complete)
	})
}

// watch draws each change of the members.
func watch(ctx context.Context, client *zkrecipes.Client, board *board) {
	for members, err := range zkrecipes.NewGroup(client, groupPath).Watch(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				board.fail(err)
			}
			return
		}
		board.see(members)
	}
}
