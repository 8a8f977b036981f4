// With runs a command on a real ZooKeeper. It starts a server, unless ZK_SERVERS
// is set, and appends host:port,... to the command's arguments or, with -env, sets
// ZK_SERVERS for it. It removes the server when the command has exited. With -env
// the server keeps empty containers, as tests want it.
//
//	go run ./internal/zkserver/with go run ./examples/mutex -zk
//	go run ./internal/zkserver/with -env go test ./internal/line
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
	"time"

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
	env := len(command) > 0 && command[0] == "-env"
	var cfg zkserver.Config
	if env {
		command, cfg.ReapEvery = command[1:], time.Hour
	}
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
		node, err := provider.Start(ctx, cfg)
		if err != nil {
			return err
		}
		servers = []string{node.Addr()}
	}
	log.Printf("using a real ZooKeeper: %s", provider)

	list := strings.Join(servers, ",")
	if !env {
		command = append(command, list)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if env {
		cmd.Env = append(os.Environ(), "ZK_SERVERS="+list)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}
