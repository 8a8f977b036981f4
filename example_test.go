package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

var ctx = context.Background()

// dial stands for zkrecipes.Dial in the examples. Each run has a prefix of its
// own, so that they can be run again on the same servers.
func dial() *zkrecipes.Client {
	client, err := zkrecipes.Dial(ctx, zkrecipes.Servers(), &zkrecipes.Options{
		Prefix:   fmt.Sprint("/examples-", time.Now().UnixNano()),
		Identity: "billing-1",
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// ship stands for what a lock is there for.
func ship(ctx context.Context, fence zkrecipes.Token) error {
	fmt.Println("shipped:", ctx.Err() == nil && fence > 0)
	return nil
}

func Example() {
	servers := zkrecipes.Servers()
	// What follows is the code in README.md, see readme_test.go.

	client, err := zkrecipes.Dial(ctx, servers, nil)
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

func ExampleMutex_Do() {
	client := dial()
	defer client.Close()

	ledger := zkrecipes.NewMutex(client, "/locks/ledger")
	err := ledger.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		fmt.Println("held, known to be alive for a while:", time.Until(lease.ValidUntil()) > 0)
		return nil
	})
	// The lock is free again. err would be ErrLost if it had been lost on the way.
	fmt.Println(err)
	// Output:
	// held, known to be alive for a while: true
	// <nil>
}

// To wait no longer than a while, give Lock a context that ends then. What
// follows under the lock has a context of its own.
func ExampleMutex_Lock_timeout() {
	client := dial()
	defer client.Close()

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
	client := dial()
	defer client.Close()

	report := zkrecipes.NewMutex(client, "/locks/report")
	for range 2 {
		lease, err := report.TryLock(ctx)
		switch {
		case errors.Is(err, zkrecipes.ErrLocked):
			fmt.Println("somebody else does it")
		case err != nil:
			log.Fatal(err)
		default:
			defer lease.Release()
			fmt.Println("this process does it")
		}
	}
	// Output:
	// this process does it
	// somebody else does it
}

func ExampleMutex_Contenders() {
	client := dial()
	defer client.Close()

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

// A process that slept learns late that it has lost the lock. What it writes to
// ZooKeeper with Commit is refused all the same.
func ExampleLease_Commit() {
	client := dial()
	defer client.Close()

	account := zkrecipes.NewMutex(client, "/accounts/7/lock")
	lease, err := account.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lease.Commit(ctx, &zk.CreateRequest{Path: "/accounts/7/balance", Data: []byte("100")})
	if err != nil {
		log.Fatal(err)
	}

	_, stat, err := lease.Get(ctx, "/accounts/7/balance")
	if err != nil {
		log.Fatal(err)
	}
	_, err = lease.Commit(ctx, &zk.SetDataRequest{Path: "/accounts/7/balance", Data: []byte("90"), Version: stat.Version})
	if err != nil {
		log.Fatal(err)
	}
	balance, _, err := lease.Get(ctx, "/accounts/7/balance")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("balance: %s\n", balance)

	if _, err = lease.Commit(ctx, &zk.DeleteRequest{Path: "/accounts/7/balance", Version: -1}); err != nil {
		log.Fatal(err)
	}
	lease.Release()
	_, err = lease.Commit(ctx, &zk.CreateRequest{Path: "/accounts/7/balance"})
	fmt.Println(err)
	// Output:
	// balance: 90
	// zkrecipes: commit under /accounts/7/lock: lease released
}

// The context that Context returns ends with the lease, for what cannot ask
// Err again and again. It does not inherit how long the lock was waited for.
func ExampleLease_Context() {
	client := dial()
	defer client.Close()

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

// Who holds a lock and asks for it again would wait for itself, which is an
// error at once. Reentrant says that it is meant.
func ExampleLease_Reentrant() {
	client := dial()
	defer client.Close()

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

// A store outside of ZooKeeper keeps the highest token it has seen, and refuses
// lower ones. In SQL, with the token as $2, no row is changed then:
//
//	UPDATE account SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2
func ExampleLease_Token() {
	client := dial()
	defer client.Close()

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
