// With runs a command on a real ZooKeeper. It starts a server, unless ZK_SERVERS
// is set, and appends host:port,... to the command's arguments. It removes the
// server when the command has exited.
//
//	go run ./internal/zkserver/with go run ./examples/mutex -zk
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("with: ")
	// Ctrl-C interrupts the start of a server. Later it is ignored here, because
	// the command gets it too and needs the server until it exits.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("no command given")
	}
	provider, err := zkserver.Find(ctx, log.Printf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	servers := provider.External()
	if servers == nil {
		node, err := provider.Start(ctx, zkserver.Config{})
		if err != nil {
			return err
		}
		servers = []string{node.Addr()}
	}
	log.Printf("using a real ZooKeeper: %s", provider)

	cmd := exec.Command(command[0], append(command[1:], strings.Join(servers, ","))...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}
