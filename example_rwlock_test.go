package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// rwClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func rwClient() (client *zkrecipes.Client, stop func()) {
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

// Readers share the lock, and a writer waits for all of them.
func ExampleRWLock() {
	ctx := context.Background()
	client, stop := rwClient()
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
func ExampleRWLock_Downgrade() {
	ctx := context.Background()
	client, stop := rwClient()
	defer stop()

	config := zkrecipes.NewRWLock(client, "/config/lock")
	err := config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx, // both or neither
			zkrecipes.OpCreate("/config/routes", []byte("/shop -> shop-7"), 0, nil),
			zkrecipes.OpCreate("/config/backends", []byte("shop-7 = 10.0.0.7"), 0, nil))
		if err != nil {
			return err
		}
		if err := config.Downgrade(ctx, lease); err != nil {
			return err
		}

		reader, err := config.TryRLock(context.Background()) // for example in another process
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

// A reader that locks the lock for writing would wait for itself, and for every
// other reader that does the same. Release the read lease first, and read again
// under the write lease.
func ExampleRWLock_Lock_upgrade() {
	ctx := context.Background()
	client, stop := rwClient()
	defer stop()

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
