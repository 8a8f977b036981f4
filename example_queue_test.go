package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// serve is the code in README.md, see readme_test.go.
func serve(ctx context.Context, client *zkrecipes.Client) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{Workers: 4})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		return bill(ctx, job.Data) // nil: it is done; an error: it comes again
	})
}

var billed = make(chan string, 1)

func bill(_ context.Context, what []byte) error {
	billed <- string(what)
	return nil
}

func ExampleQueue_Serve() {
	client := dial()
	defer client.Close()
	ctx, stop := context.WithCancel(ctx)
	go func() {
		fmt.Println("billed:", <-billed)
		stop()
	}()
	if err := serve(ctx, client); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	n, err := zkrecipes.NewQueue(client, "/jobs", nil).Len(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left:", n)
	// Output:
	// billed: invoice 17
	// left: 0
}

// What an item brings about in ZooKeeper is done exactly once if it is part of the
// ack: all of it is carried out, or nothing.
func ExampleItem_Ack() {
	client := dial()
	defer client.Close()
	jobs := zkrecipes.NewQueue(client, "/jobs", nil)
	if _, err := jobs.PutAll(ctx, []byte("3"), []byte("4")); err != nil {
		log.Fatal(err)
	}
	job, err := jobs.Take(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = job.Ack(ctx, &zk.CreateRequest{Path: "/result", Data: job.Data})
	if err != nil {
		log.Fatal(err)
	}
	next, err := jobs.Take(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = next.Ack(ctx, &zk.CreateRequest{Path: "/result", Data: next.Data})
	fmt.Printf("done: %s; %s: exists already: %v\n", job.Data, next.Data, errors.Is(err, zk.ErrNodeExists))
	if err := next.Nack(ctx); err != nil { // it is still claimed, and goes back
		log.Fatal(err)
	}
	// Output: done: 3; 4: exists already: true
}
