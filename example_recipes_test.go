package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// leadBilling has code of docs/election.md, see docs_test.go.
func leadBilling(ctx context.Context, client *zkrecipes.Client, lead func(context.Context, zkrecipes.Token) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return lead(ctx, term.Token()) // ctx ends if the term does
	})
}

// Every process calls Lead, and one at a time runs the function.
func ExampleElection_Lead() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	scheduler := zkrecipes.NewElection(client, "/services/scheduler")
	err := scheduler.Lead(ctx, []byte("10.0.0.7:8080"), func(ctx context.Context, term *zkrecipes.Term) error {
		// ctx ends when the leadership is lost. A write by Commit is made only while
		// this process leads.
		_, err := term.Commit(ctx, zkrecipes.OpCreate("/services/plan", []byte("v1"), 0, nil))
		if err == nil {
			fmt.Println("planned")
		}
		return err // resigns
	})
	fmt.Println(err)
	// Output:
	// planned
	// <nil>
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	primary := zkrecipes.NewElection(client, "/shards/7")
	term, err := primary.Campaign(ctx, []byte("starting")) // until elected
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := term.Resign(); err != nil { // the term may have ended before
			log.Print(err)
		}
	}()
	if err := term.Proclaim(ctx, []byte("10.0.0.7:8080")); err != nil {
		log.Print(err)
		return
	}
	leader, err := primary.Leader(ctx) // in any process
	fmt.Printf("%s leads: %v\n", leader.Value, err == nil && leader.Token == term.Token())
	// Output: 10.0.0.7:8080 leads: true
}

// Observe tells any process who leads.
func ExampleElection_Observe() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	primary := zkrecipes.NewElection(client, "/shards/8")
	term, err := primary.Campaign(ctx, []byte("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range primary.Observe(ctx) {
		if err != nil {
			log.Print(err)
			return
		}
		if leader.None() {
			fmt.Println("no leader")
			return
		}
		fmt.Printf("send requests to %s\n", leader.Value)
		if err := term.Resign(); err != nil { // elsewhere, some time later
			log.Print(err)
		}
	}
	// Output:
	// send requests to 10.0.0.7:8080
	// no leader
}

// At most two exports run at a time, over all processes.
func ExampleSemaphore() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	exports := zkrecipes.NewSemaphore(client, "/exports", 2)
	first, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = exports.Do(ctx, func(ctx context.Context, lease *zkrecipes.SlotLease) error {
		_, err := exports.TryAcquire(ctx)
		fmt.Println("slots", first.Slot(), "and", lease.Slot(), "are held; a third must wait:", errors.Is(err, zkrecipes.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// slots 0 and 1 are held; a third must wait: true
}

// A large job takes several slots together. Nobody overtakes it while it waits for them.
func ExampleSemaphore_AcquireN() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	workers := zkrecipes.NewSemaphore(client, "/workers", 4)
	lease, err := workers.AcquireN(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("slots", lease.Slots())
	if err := lease.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// slots [0 1 2]
}

// Resize changes the number of slots while the semaphore is in use.
func ExampleSemaphore_Resize() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	exports := zkrecipes.NewSemaphore(client, "/exports-eu", 1)
	lease, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	if err := exports.Resize(ctx, 2); err != nil {
		log.Fatal(err)
	}
	other, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release()
	contenders, err := exports.Contenders(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holders:", len(contenders)) // nobody waits
	// Output:
	// holders: 2
}

// Each caller gets a number of its own, over all processes.
func ExampleCounter() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	tickets := zkrecipes.NewCounter(client, "/tickets")
	number, err := tickets.Add(ctx, 1) // nobody else gets this one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ticket", number)
	if _, err := tickets.Add(ctx, 10); err != nil {
		log.Fatal(err)
	}
	swapped, err := tickets.CompareAndSet(ctx, 11, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("begun anew:", swapped)
	// Output:
	// ticket 1
	// begun anew: true
}

// work is what each worker does. It has code of docs/barriers.md, see docs_test.go.
func work(ctx context.Context, client *zkrecipes.Client, workers int) error {
	barrier := zkrecipes.NewBarrier(client, "/barriers/17", workers)
	part, err := barrier.Wait(ctx) // until all workers are there
	if err != nil {
		return err
	}
	if err := compute(ctx, part); err != nil {
		return err
	}
	if lead, err := barrier.Wait(ctx); err != nil || lead != 0 { // until all parts are done
		return err
	}
	return merge(ctx)
}

var (
	partsMu sync.Mutex
	parts   = map[int]bool{}
)

func compute(_ context.Context, part int) error {
	partsMu.Lock()
	defer partsMu.Unlock()
	parts[part] = true
	return nil
}

func merge(context.Context) error {
	partsMu.Lock()
	defer partsMu.Unlock()
	fmt.Println("merged:", len(parts), "parts")
	return nil
}

// Each goroutine is a member, as a process would be.
func ExampleBarrier() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	const workers = 3
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			if err := work(ctx, client, workers); err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	// Output: merged: 3 parts
}

func ExampleGate() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	maintenance := zkrecipes.NewGate(client, "/maintenance")
	if err := maintenance.Shut(ctx); err != nil {
		log.Fatal(err)
	}
	passed := make(chan error)
	go func() { passed <- maintenance.Wait(ctx) }() // every worker does so before it goes on
	if err := maintenance.Open(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("open:", <-passed == nil)
	// Output: open: true
}

func ExampleDoubleBarrier() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	const players = 2
	var wg sync.WaitGroup
	for range players {
		wg.Go(func() {
			game := zkrecipes.NewDoubleBarrier(client, "/game", players)
			visit, err := game.Enter(ctx) // until all players are there
			if err != nil {
				log.Print(err)
				return
			}
			play(visit.Context(ctx))                 // ends if the visit is lost
			if err := visit.Leave(ctx); err != nil { // returns when all have left
				log.Print(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("all have left")
	// Output: all have left
}

func play(context.Context) {}

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

func ExampleQueue() {
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()
	jobs := zkrecipes.NewQueue(client, "/sums", nil)
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
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()
	jobs := zkrecipes.NewQueue(client, "/prints", &zkrecipes.QueueOptions{MaxAttempts: 1})
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

// A process joins, and any process watches who is there.
func ExampleGroup() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	group := zkrecipes.NewGroup(client, "/services/search")
	member, err := group.Join(ctx, []byte("10.0.0.7:9000"), zkrecipes.MemberID("search-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave()
	for members, err := range group.Watch(ctx) {
		if err != nil {
			log.Print(err)
			return
		}
		for _, m := range members {
			fmt.Printf("%s at %s\n", m.ID, m.Data)
		}
		if string(members[0].Data) == "draining" {
			return
		}
		if err := member.Update(ctx, []byte("draining")); err != nil {
			log.Print(err)
			return
		}
	}
	// Output:
	// search-7 at 10.0.0.7:9000
	// search-7 at draining
}

// joinSearch has code of docs/members.md, see docs_test.go.
func joinSearch(ctx context.Context, client *zkrecipes.Client, serve func(context.Context)) {
	group := zkrecipes.NewGroup(client, "/services/search")
	member, err := group.Join(ctx, []byte("10.0.0.7:9000"))
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave()
	serve(ctx)
}

// Members asks once who is there.
func ExampleGroup_Members() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	joinSearch(ctx, client, func(ctx context.Context) {
		members, err := zkrecipes.NewGroup(client, "/services/search").Members(ctx)
		fmt.Println(len(members), err)
	})
	// Output: 1 <nil>
}

// Two processes share out four shards. Here both are in one process.
func ExampleShards() {
	client, stop := exampleClient()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	table := zkrecipes.NewShards(client, "/shards/orders", 4, &zkrecipes.ShardsOptions{Settle: time.Millisecond})
	for range 2 {
		go func() {
			if err := serveOrders(ctx, table); err != nil {
				log.Print(err)
			}
		}()
	}
	for owners, err := range table.Watch(ctx) {
		if err != nil {
			log.Print(err)
			return
		}
		shares := map[string]int{}
		for _, o := range owners {
			if !o.Leaves {
				shares[o.Member]++
			}
		}
		if slices.Equal(slices.Collect(maps.Values(shares)), []int{2, 2}) { // while shards move, it is not so
			fmt.Println("two processes with two shards each")
			return
		}
	}
	// Output: two processes with two shards each
}

// serveOrders has code of docs/shards.md, see docs_test.go.
func serveOrders(ctx context.Context, table *zkrecipes.Shards) error {
	err := table.Serve(ctx, func(ctx context.Context, shard *zkrecipes.Shard) error {
		for ctx.Err() == nil { // it ends when the shard is lost, or goes to another process
			if err := shipSome(ctx, shard.Number(), shard.Count(), shard.Token()); err != nil {
				return err // it is called again after a pause
			}
		}
		return nil
	})
	return err
}

// shipSome ships the orders of a shard that are there.
func shipSome(ctx context.Context, number, count int, fence zkrecipes.Token) error {
	<-ctx.Done()
	return nil
}
