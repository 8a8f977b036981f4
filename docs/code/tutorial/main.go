// Command tutorial is the program of docs/tutorial.md.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

func main() {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	servers, prefix, err := zkrecipes.ParseServers(os.Getenv("ZK_SERVERS"))
	if err != nil {
		log.Fatal(err)
	}
	dialing, dialed := context.WithTimeout(stop, 30*time.Second)
	defer dialed()
	client, err := zkrecipes.Dial(dialing, servers, &zkrecipes.Options{Prefix: prefix})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- work(context.Background(), client, pack) }()

	select {
	case <-stop.Done():
	case err := <-ended:
		log.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := errors.Join(client.Shutdown(deadline), <-ended); err != nil {
		log.Fatal(err)
	}
}

// work ships orders until the client is shut down.
func work(ctx context.Context, client *zkrecipes.Client, pack func(context.Context, int) error) error {
	lock := zkrecipes.NewMutex(client, "/locks/orders")
	for {
		err := lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return ship(ctx, lease, pack)
		})
		switch {
		case errors.Is(err, zkrecipes.ErrClosed):
			return nil
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted), errors.Is(err, zkrecipes.ErrUncertain):
			log.Print("locking and reading again: ", err)
		case err != nil:
			return err
		}
	}
}

// ship packs the next order, and then records its number.
func ship(ctx context.Context, lease *zkrecipes.Lease, pack func(context.Context, int) error) error {
	data, stat, err := lease.Get(ctx, "/shipped")
	if errors.Is(err, zk.ErrNoNode) {
		_, err = lease.Commit(ctx, zkrecipes.OpCreate("/shipped", []byte("0"), 0, zk.WorldACL(zk.PermAll)))
		return err // the next call finds it
	}
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	if err := pack(ctx, last+1); err != nil {
		return err
	}
	_, err = lease.Commit(ctx, zkrecipes.OpSet("/shipped", strconv.AppendInt(nil, int64(last+1), 10), stat.Version))
	return err
}

// pack stands for the work. It stops when the lock is lost.
func pack(ctx context.Context, order int) error {
	select {
	case <-time.After(time.Second):
		log.Printf("process %d packed order %d", os.Getpid(), order)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
