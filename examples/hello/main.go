// Hello does something under a lock. Copy this folder, and go on from here.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("ZK_SERVERS")); err != nil {
		log.Fatal(err)
	}
}

// run uses the servers, host:port,host:port, or a ZooKeeper inside this process.
func run(ctx context.Context, connect string) error {
	if connect == "" {
		log.Print("ZK_SERVERS is not set: this process uses a ZooKeeper of its own, which excludes nobody else")
		srv, err := zktest.Start()
		if err != nil {
			return err
		}
		defer srv.Close()
		connect = srv.Addr()
	}
	servers, prefix, err := zkrecipes.ParseServers(connect)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, &zkrecipes.Options{Prefix: prefix})
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewMutex(client, "/locks/hello")
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		fmt.Println("hello, I hold", lock.Path(), "with token", lease.Token())
		return ctx.Err() // ctx ends if the lock is lost
	})
}
