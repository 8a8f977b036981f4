package zkrecipes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// electionClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func electionClient() (client *zkrecipes.Client, stop func()) {
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
	client, stop := electionClient()
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
	client, stop := electionClient()
	defer stop()
	primary := zkrecipes.NewElection(client, "/shards/7")
	term, err := primary.Campaign(ctx, []byte("starting")) // until elected
	if err != nil {
		log.Fatal(err)
	}
	defer term.Resign()
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
	client, stop := electionClient()
	defer stop()
	primary := zkrecipes.NewElection(client, "/shards/7")
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

// Two accounts are locked in the same order by everybody.
func ExampleDoAll() {
	ctx := context.Background()
	client, stop := electionClient()
	defer stop()
	from, to := zkrecipes.NewMutex(client, "/accounts/17"), zkrecipes.NewMutex(client, "/accounts/4")
	err := zkrecipes.DoAll(ctx, []*zkrecipes.Mutex{from, to}, func(ctx context.Context, held *zkrecipes.Leases) error {
		// ctx ends when one of the locks is lost.
		leases := held.All() // leases[0] is that of from
		fmt.Println("both are held:", len(leases), held.Err())
		return nil
	})
	fmt.Println(err)
	// Output:
	// both are held: 2 <nil>
	// <nil>
}

func ExampleLockAll() {
	ctx := context.Background()
	client, stop := electionClient()
	defer stop()
	held, err := zkrecipes.LockAll(ctx,
		zkrecipes.NewMutex(client, "/accounts/17"),
		zkrecipes.NewMutex(client, "/accounts/4"))
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release()
	fmt.Println("all are held:", held.Err() == nil)
	// Output: all are held: true
}
