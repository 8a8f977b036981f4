// Package fromgozookeeper has the code of docs/migrating/go-zookeeper.md.
package fromgozookeeper

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// before uses go-zookeeper's lock.
func before(servers []string, ship func() error) error {
	conn, _, err := zk.Connect(servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	lock := zk.NewLock(conn, "/locks/orders", zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer lock.Unlock()
	return ship()
}

// after uses the library's.
func after(ctx context.Context, servers []string, ship func(context.Context) error) error {
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	return orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx) // ctx ends if the lock is lost
	})
}
