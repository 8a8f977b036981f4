// Package demo is what the examples share, and has nothing to do with locks:
// the ZooKeeper they run on, and processes that tell what they do.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// Role is a part that a process of the program plays, until ctx ends.
type Role func(ctx context.Context, args []string) error

// Main runs parent, or the role that the first argument names, with the
// arguments that are left. Either ends with an interrupt, a role also with Run
// in the parent, however that ends. It does not return after an error.
func Main(program string, parent Role, roles map[string]Role) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	args := os.Args[1:]
	var err error
	if len(args) > 0 && roles[args[0]] != nil {
		ctx = untilInputEnds(ctx)
		err = roles[args[0]](ctx, args[1:])
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil // it was told to stop
		}
	} else {
		err = parent(ctx, args)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// untilInputEnds returns a context that ends with standard input, see Run.
func untilInputEnds(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return ctx
}

// ZooKeeper says on what the program runs: on list, if that is not empty, and
// else on a server in this process until stop is called.
func ZooKeeper(list string) (servers string, stop func(), err error) {
	if list != "" {
		fmt.Printf("ZooKeeper: %s (given by -zk)\n", list)
		return list, func() {}, nil
	}
	srv, err := zktest.Start()
	if err != nil {
		return "", nil, err
	}
	fmt.Printf("ZooKeeper: %s (package zktest in this process, not a real server; -zk takes one)\n", srv.Addr())
	return srv.Addr(), srv.Close, nil
}

// Prefix returns a new prefix for the paths of one run. It goes by itself when
// it is empty: it is made of containers.
func Prefix(program string) string {
	return "/zkrecipes-demo-" + program + "-" + strings.ToLower(rand.Text()[:8])
}

// Remove deletes what a run with that prefix has left.
func Remove(servers, prefix string) error {
	conn, events, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	return remove(conn, prefix)
}

// remove deletes a znode and all below it, which others may do at the same time.
func remove(conn *zk.Conn, path string) error {
	names, _, err := conn.Children(path)
	for _, name := range names {
		if err == nil {
			err = remove(conn, path+"/"+name)
		}
	}
	if err == nil {
		err = conn.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
