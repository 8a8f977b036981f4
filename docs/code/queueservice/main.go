// Command queueservice is the program of docs/queue.md.
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
	if err := run(ctx, os.Getenv("ZK_SERVERS"), bill); err != nil { // host:port,host:port/prefix
		log.Fatal(err) // exit code 1: the supervisor starts it again
	}
}

// run serves the queue until ctx ends.
func run(ctx context.Context, connect string, handler func(context.Context, *zkrecipes.Item) error) error {
	servers, prefix, err := zkrecipes.ParseServers(connect)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, &zkrecipes.Options{Prefix: prefix, Logger: slog.Default()})
	switch {
	case ctx.Err() != nil:
		return client.Close() // asked to stop before it began
	case err != nil:
		return err
	}
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{Workers: 4})
	serving := make(chan error, 1)
	go func() {
		for {
			err := jobs.Serve(context.Background(), handler) // Shutdown ends it
			if !errors.Is(err, zkrecipes.ErrEvicted) {
				serving <- err
				return
			}
			log.Print("waiting for items again: ", err) // somebody deleted our znode
		}
	}()
	select {
	case <-ctx.Done(): // asked to stop
	case err = <-serving: // it cannot go on
	}
	stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(err, client.Shutdown(stopping)) // lets the handlers finish
}

// bill stands for your work. It may see an item again, with the same ID, so it asks the
// database whether that one was done: INSERT INTO bills (item, ..) .. ON CONFLICT DO NOTHING
func bill(ctx context.Context, job *zkrecipes.Item) error {
	select {
	case <-time.After(100 * time.Millisecond):
		log.Printf("billed %s, attempt %d", job.Data, job.Attempt)
		return nil // acks the item
	case <-ctx.Done():
		return context.Cause(ctx) // the item was lost, or time is up: another consumer gets it
	}
}
