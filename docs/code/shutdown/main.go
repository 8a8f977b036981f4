// Command shutdown has the code of docs/service.md that stops a service. When it is
// told to stop, it grants nothing more and lets the work under the lock finish.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// grace is shorter than the time from SIGTERM to SIGKILL, 30 s on Kubernetes.
const grace = 25 * time.Second

func main() {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	servers, prefix, err := zkrecipes.ParseServers(os.Getenv("ZK_SERVERS"))
	if err != nil {
		log.Fatal(err)
	}
	dialing, dialed := context.WithTimeout(stop, 30*time.Second)
	defer dialed()
	client, err := zkrecipes.Dial(dialing, servers, &zkrecipes.Options{Prefix: prefix, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(stop, client, grace, ship); err != nil {
		log.Fatal(err) // exit code 1: the work failed, or was cut short
	}
	log.Print("stopped")
}

// serve works under the lock until stop ends, lets the work finish, and closes the client.
func serve(stop context.Context, client *zkrecipes.Client, grace time.Duration, ship work) error {
	ended := make(chan error, 1)
	go func() { ended <- loop(context.WithoutCancel(stop), client, ship) }() // SIGTERM does not end it

	select {
	case <-stop.Done():
	case err := <-ended: // it failed
		return errors.Join(err, client.Close())
	}
	deadline, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := client.Shutdown(deadline) // at the deadline, the contexts of leases end
	return errors.Join(err, <-ended)
}

// loop ends without an error when the client is shut down.
func loop(ctx context.Context, client *zkrecipes.Client, ship work) error {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	for {
		err := orders.Do(ctx, ship)
		switch {
		case errors.Is(err, zkrecipes.ErrClosed):
			return nil // Shutdown grants nothing more; if it cut the work short, it says so
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted):
			log.Print("waiting for the lock again: ", err)
		case err != nil:
			return err
		}
	}
}

type work = func(context.Context, *zkrecipes.Lease) error

// ship stands for the work under the lock, which returns soon after its context ends.
func ship(ctx context.Context, lease *zkrecipes.Lease) error {
	select {
	case <-time.After(100 * time.Millisecond):
		log.Printf("shipped with token %d", lease.Token())
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
