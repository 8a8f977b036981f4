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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("ZK_SERVERS"), &store{}); err != nil { // host:port,host:port/prefix
		log.Fatal(err)
	}
}

// run ships orders under the lock until ctx ends.
func run(ctx context.Context, connect string, db *store) error {
	servers, prefix, err := zkrecipes.ParseServers(connect)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, &zkrecipes.Options{Prefix: prefix, Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer client.Close() // after the last write

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	for {
		err := orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return ship(ctx, db, lease.Token()) // ctx ends if the lock is lost
		})
		switch {
		case ctx.Err() != nil:
			return nil // asked to stop, and Do has released the lock
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted):
			log.Print("waiting for the lock again: ", err) // another process may hold it now
		case err != nil:
			return err
		}
	}
}

// ship stands for your work under the lock.
func ship(ctx context.Context, db *store, token zkrecipes.Token) error {
	select {
	case <-time.After(100 * time.Millisecond): // pick and pack
	case <-ctx.Done():
		return context.Cause(ctx) // ErrLost, or asked to stop
	}
	return db.write(token)
}

// store stands for your database, which refuses a token lower than the last:
// UPDATE orders SET .., fence = $2 WHERE id = $1 AND (fence IS NULL OR fence <= $2)
type store struct{ fence zkrecipes.Token }

func (db *store) write(token zkrecipes.Token) error {
	if token < db.fence {
		return errors.New("refused: a later holder has written")
	}
	db.fence = token
	log.Printf("shipped with token %d", token)
	return nil
}
