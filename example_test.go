package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lockClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func lockClient() (client *zkrecipes.Client, stop func()) {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = zkrecipes.Dial(context.Background(), []string{srv.Addr()}, &zkrecipes.Options{Identity: "billing-1"})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		srv.Close()
	}
}

// ship stands for the work that the lock protects.
func ship(ctx context.Context, fence zkrecipes.Token) error {
	fmt.Println("shipped:", ctx.Err() == nil && fence > 0)
	return nil
}

func Example() {
	ctx := context.Background()
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	servers := []string{srv.Addr()}

	// What follows is the first code in README.md, see docs_test.go.
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	err = orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx, lease.Token()) // ctx ends if the lock is lost
	})

	if err != nil {
		log.Fatal(err)
	}
	// Output: shipped: true
}

func ExampleParseServers() {
	servers, prefix, err := zkrecipes.ParseServers("zk1:2181,zk2:2181/app")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(servers, prefix) // for Dial and Options.Prefix
	// Output: [zk1:2181 zk2:2181] /app
}

// The second holder gets the lock at once, because the first one has released it. If the first
// one had died, the second one would wait for 15 seconds after it had seen that.
func ExampleLockDelay() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	arm := zkrecipes.NewMutex(client, "/locks/arm-3", zkrecipes.LockDelay(15*time.Second))
	for range 2 {
		err := arm.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return ship(ctx, lease.Token()) // must notice within 15 s that ctx has ended
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// shipped: true
	// shipped: true
}

func ExampleMutex_Do() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	err := ledger.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		fmt.Println("held, and known to be valid for a while:", time.Until(lease.ValidUntil()) > 0)
		return nil
	})
	// The lock is free again. err would be ErrLost if the lock had been lost meanwhile.
	fmt.Println(err)
	// Output:
	// held, and known to be valid for a while: true
	// <nil>
}

// To limit the wait, give Lock a context with a timeout. Use another context for
// the work under the lock.
func ExampleMutex_Lock_timeout() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	lease, err := ledger.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()

	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = ledger.Lock(soon)
	fmt.Println(err)
	// Output: zkrecipes: lock /locks/ledger: context deadline exceeded
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	report := zkrecipes.NewMutex(client, "/locks/report")
	for range 2 {
		lease, err := report.TryLock(ctx)
		switch {
		case errors.Is(err, zkrecipes.ErrLocked):
			fmt.Println("another holder writes the report")
		case err != nil:
			log.Fatal(err)
		default:
			defer lease.Release()
			fmt.Println("this one writes the report")
		}
	}
	// Output:
	// this one writes the report
	// another holder writes the report
}

func ExampleMutex_Contenders() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	lease, err := ledger.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()

	contenders, err := ledger.Contenders(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range contenders {
		fmt.Println(c.Identity, c.Held, c.Token == lease.Token())
	}
	// Output: billing-1 true true
}

// Whoever waits for longer than a minute is evicted: its Lock returns ErrEvicted.
func ExampleClient_Evict() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	contenders, err := zkrecipes.NewMutex(client, "/locks/ledger").Contenders(ctx)
	if err != nil && !errors.Is(err, zkrecipes.ErrUnused) {
		log.Fatal(err)
	}
	for _, c := range contenders {
		if c.Held || time.Since(c.Since) < time.Minute {
			continue
		}
		evicted, err := client.Evict(ctx, c, nil)
		switch {
		case errors.Is(err, zkrecipes.ErrHolder): // it was granted the lock meanwhile
		case err != nil:
			log.Fatal(err)
		default:
			log.Println("evicted", evicted, c.Identity)
		}
	}
	// Output:
}

// A process that was suspended learns late that it has lost the lock. Even so, the
// servers refuse what it writes with Commit.
func ExampleLease_Commit() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	account := zkrecipes.NewMutex(client, "/accounts/7/lock")
	lease, err := account.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lease.Commit(ctx, zkrecipes.OpCreate("/accounts/7/balance", []byte("100"), 0, nil))
	if err != nil {
		log.Fatal(err)
	}

	_, stat, err := lease.Get(ctx, "/accounts/7/balance")
	if err != nil {
		log.Fatal(err)
	}
	_, err = lease.Commit(ctx, zkrecipes.OpSet("/accounts/7/balance", []byte("90"), stat.Version))
	if err != nil {
		log.Fatal(err)
	}
	balance, _, err := lease.Get(ctx, "/accounts/7/balance")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("balance: %s\n", balance)

	if _, err = lease.Commit(ctx, zkrecipes.OpDelete("/accounts/7/balance", -1)); err != nil {
		log.Fatal(err)
	}
	lease.Release()
	_, err = lease.Commit(ctx, zkrecipes.OpCreate("/accounts/7/balance", nil, 0, nil))
	fmt.Println(err)
	// Output:
	// balance: 90
	// zkrecipes: commit under /accounts/7/lock: lease released
}

// Context returns a context that ends with the lease. It is for work that cannot
// poll Err. The time limit of the wait for the lock does not apply to it.
func ExampleLease_Context() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	atMost, cancel := context.WithTimeout(ctx, 5*time.Second)
	lease, err := ledger.Lock(atMost)
	cancel()
	if err != nil {
		log.Fatal(err)
	}

	work := lease.Context(ctx)
	fmt.Println("working:", work.Err() == nil)
	lease.Release()
	<-work.Done()
	fmt.Println(context.Cause(work))
	// Output:
	// working: true
	// zkrecipes: hold /locks/ledger: lease released
}

// A holder that locks the same lock again would wait for itself, so Lock returns an
// error at once. Use Reentrant to enter again on purpose.
func ExampleLease_Reentrant() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	audit := func(ctx context.Context) error {
		return ledger.Do(ctx, func(context.Context, *zkrecipes.Lease) error {
			fmt.Println("audited")
			return nil
		})
	}
	err := ledger.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		err := audit(ctx)
		fmt.Println("deadlock:", errors.Is(err, zkrecipes.ErrDeadlock))
		return audit(lease.Reentrant(ctx))
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// deadlock: true
	// audited
}

// A store outside of ZooKeeper keeps the highest token that it has seen, and refuses
// lower ones. In SQL, with the token as $2:
//
//	UPDATE account SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2
//
// If no row changed, the token was too low.
func ExampleLease_Token() {
	ctx := context.Background()
	client, stop := lockClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	var fence zkrecipes.Token
	for range 2 {
		err := ledger.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			fmt.Println("higher than before:", lease.Token() > fence)
			fence = lease.Token()
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// higher than before: true
	// higher than before: true
}
