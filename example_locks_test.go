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

// While nobody else wants the lock, taking it again costs no request.
func ExampleKeepFor() {
	ctx := context.Background()
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	shard := zkrecipes.NewMutex(client, "/locks/shard-7", zkrecipes.KeepFor(5*time.Second))
	before := srv.Counts()
	for range 100 {
		err := shard.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return nil // the work
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("fewer than 10 transactions for 100 holds:", srv.Counts().Sub(before).Transactions < 10)
	// Output: fewer than 10 transactions for 100 holds: true
}

// The second holder gets the lock at once, because the first one has released it. If the first
// one had died, the second one would wait for 15 seconds after it had seen that.
func ExampleLockDelay() {
	ctx := context.Background()
	client, stop := exampleClient()
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

func ExampleMutex() {
	ctx := context.Background()
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/import")
	lease, err := ledger.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()

	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = ledger.Lock(soon)
	fmt.Println(err)
	// Output: zkrecipes: lock /locks/import: context deadline exceeded
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/parcels")
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

// A process that was suspended learns late that it has lost the lock. Even so, the
// servers refuse what it writes with Commit.
func ExampleLease_Commit() {
	ctx := context.Background()
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/index")
	atMost, cancel := context.WithTimeout(ctx, time.Minute)
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
	// zkrecipes: hold /locks/index: lease released
}

// A holder that locks the same lock again would wait for itself, so Lock returns an
// error at once. Use Reentrant to enter again on purpose.
func ExampleLease_Reentrant() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/audited")
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
	client, stop := exampleClient()
	defer stop()

	ledger := zkrecipes.NewMutex(client, "/locks/payments")
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

// Two accounts are locked in the same order by everybody.
func ExampleDoAll() {
	ctx := context.Background()
	client, stop := exampleClient()
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
	client, stop := exampleClient()
	defer stop()
	held, err := zkrecipes.LockAll(ctx,
		zkrecipes.NewMutex(client, "/accounts/18"),
		zkrecipes.NewMutex(client, "/accounts/5"))
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release()
	fmt.Println("all are held:", held.Err() == nil)
	// Output: all are held: true
}

// Readers share the lock, and a writer waits for all of them.
func ExampleRWLock() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	config := zkrecipes.NewRWLock(client, "/config/lock")
	first, err := config.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := config.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = config.TryLock(ctx)
	fmt.Println("a writer must wait:", errors.Is(err, zkrecipes.ErrLocked))

	first.Release()
	second.Release()
	err = config.Do(ctx, func(context.Context, *zkrecipes.Lease) error {
		_, err := config.TryRLock(ctx)
		fmt.Println("a reader must wait:", errors.Is(err, zkrecipes.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// a writer must wait: true
	// a reader must wait: true
}

// The writer publishes alone. Then it verifies what it published as one reader among
// others, and no other writer can change it in between.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	config := zkrecipes.NewRWLock(client, "/routing/lock")
	err := config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx, // both or neither
			zkrecipes.OpCreate("/routing/routes", []byte("/shop -> shop-7"), 0, nil),
			zkrecipes.OpCreate("/routing/backends", []byte("shop-7 = 10.0.0.7"), 0, nil))
		if err != nil {
			return err
		}
		if err := lease.Downgrade(ctx); err != nil {
			return err
		}

		reader, err := config.TryRLock(context.Background()) // for example in another process
		if err != nil {
			return err
		}
		defer reader.Release()
		routes, _, err := reader.Get(ctx, "/routing/routes")
		if err != nil {
			return err
		}
		backends, _, err := lease.Get(ctx, "/routing/backends")
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n", routes, backends)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// /shop -> shop-7
	// shop-7 = 10.0.0.7
}

// A reader that locks the lock for writing would wait for itself, and for every
// other reader that does the same. Release the read lease first, and read again
// under the write lease.
func ExampleRWLock_Lock_upgrade() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	config := zkrecipes.NewRWLock(client, "/prices/lock")
	err := config.RDo(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := config.Lock(ctx)
		fmt.Println("upgrade:", errors.Is(err, zkrecipes.ErrUpgrade))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: upgrade: true
}
