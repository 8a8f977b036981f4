package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Readers share the lock, and a writer waits for all of them.
func ExampleRWLock() {
	client := dial()
	defer client.Close()

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
	fmt.Println("a writer has to wait:", errors.Is(err, zkrecipes.ErrLocked))

	first.Release()
	second.Release()
	err = config.Do(ctx, func(context.Context, *zkrecipes.Lease) error {
		_, err := config.TryRLock(ctx)
		fmt.Println("a reader has to wait:", errors.Is(err, zkrecipes.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// a writer has to wait: true
	// a reader has to wait: true
}

// The writer publishes alone, and verifies what it published as a reader among
// others: nobody can write in between.
func ExampleRWLock_Downgrade() {
	client := dial()
	defer client.Close()

	config := zkrecipes.NewRWLock(client, "/config/lock")
	err := config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx, // both or none
			&zk.CreateRequest{Path: "/config/routes", Data: []byte("/shop -> shop-7")},
			&zk.CreateRequest{Path: "/config/backends", Data: []byte("shop-7 = 10.0.0.7")})
		if err != nil {
			return err
		}
		if err := config.Downgrade(ctx, lease); err != nil {
			return err
		}

		reader, err := config.TryRLock(context.Background()) // another process, say
		if err != nil {
			return err
		}
		defer reader.Release()
		routes, _, err := reader.Get(ctx, "/config/routes")
		if err != nil {
			return err
		}
		backends, _, err := lease.Get(ctx, "/config/backends")
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

// To write with a reader's context would mean to wait for oneself, and for every
// other reader that wants the same. Release first, and look again once the writer's
// lock is there.
func ExampleRWLock_Lock_upgrade() {
	client := dial()
	defer client.Close()

	config := zkrecipes.NewRWLock(client, "/config/lock")
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
