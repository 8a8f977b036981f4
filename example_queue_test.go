package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// queueClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func queueClient() (client *zkrecipes.Client, stop func()) {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = zkrecipes.Dial(context.Background(), []string{srv.Addr()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		srv.Close()
	}
}

// serve has code of docs/queue.md, see docs_test.go.
func serve(ctx context.Context, client *zkrecipes.Client) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{Workers: 4})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		return bill(ctx, job.Data) // nil acks the item; an error returns it to the queue
	})
}

var billed = make(chan string, 1)

func bill(_ context.Context, what []byte) error {
	billed <- string(what)
	return nil
}

func ExampleQueue_Serve() {
	client, stop := queueClient()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		fmt.Println("billed:", <-billed)
		cancel()
	}()
	if err := serve(ctx, client); err != nil {
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

// What an item does in ZooKeeper happens exactly once if it is part of the ack: the
// servers apply all operations of an ack or none.
func ExampleItem_Ack() {
	ctx := context.Background()
	client, stop := queueClient()
	defer stop()
	jobs := zkrecipes.NewQueue(client, "/jobs", nil)
	if _, err := jobs.PutAll(ctx, []byte("3"), []byte("4")); err != nil {
		log.Fatal(err)
	}
	job, err := jobs.Take(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = job.Ack(ctx, zkrecipes.OpCreate("/result", job.Data, 0, nil))
	if err != nil {
		log.Fatal(err)
	}
	next, err := jobs.Take(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = next.Ack(ctx, zkrecipes.OpCreate("/result", next.Data, 0, nil))
	fmt.Printf("done: %s; %s: result exists: %v\n", job.Data, next.Data, errors.Is(err, zk.ErrNodeExists))
	if err := next.Nack(ctx); err != nil { // it is still claimed; return it to the queue
		log.Fatal(err)
	}
	// Output: done: 3; 4: result exists: true
}

// Two queues make a pipeline. Each step acks its item and puts the result into the next
// queue in one transaction, so nothing is lost and nothing is done twice.
func ExampleItem_AckPut() {
	ctx, cancel := context.WithCancel(context.Background())
	client, stop := queueClient()
	defer stop()
	orders := zkrecipes.NewQueue(client, "/orders", nil)
	parcels := zkrecipes.NewQueue(client, "/parcels", nil)
	if _, err := orders.PutAll(ctx, []byte("book"), []byte("lamp")); err != nil {
		log.Fatal(err)
	}
	packing := make(chan error)
	go func() {
		packing <- orders.Serve(ctx, func(ctx context.Context, order *zkrecipes.Item) error {
			_, err := order.AckPut(ctx, parcels, [][]byte{append([]byte("packed "), order.Data...)})
			return err
		})
	}()
	for range 2 {
		parcel, err := parcels.Take(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", parcel.Data)
		if err := parcel.Ack(ctx); err != nil {
			log.Fatal(err)
		}
	}
	cancel()
	if err := <-packing; err != nil {
		log.Fatal(err)
	}
	// Output:
	// packed book
	// packed lamp
}

// Dead letters tell why they failed. Once the reason is fixed, they are moved back.
func ExampleQueue_Redrive() {
	ctx, cancel := context.WithCancel(context.Background())
	client, stop := queueClient()
	defer stop()
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		log.Fatal(err)
	}
	working := make(chan error)
	go func() {
		working <- jobs.Serve(ctx, func(context.Context, *zkrecipes.Item) error { return errors.New("the printer is on fire") })
	}()
	letter, err := jobs.DeadLetters().Take(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, taken %d times: %s\n", letter.Data, letter.Failure.Attempts, letter.Failure.Text)
	if err := letter.Nack(ctx); err != nil { // it stays a dead letter
		log.Fatal(err)
	}
	cancel()
	if err := <-working; err != nil {
		log.Fatal(err)
	}
	moved, err := jobs.Redrive(context.Background(), 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved back:", moved)
	// Output:
	// invoice 17, taken 1 times: the printer is on fire
	// moved back: 1
}
