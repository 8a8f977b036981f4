// Package fromcurator has the code of docs/migrating/curator.md.
package fromcurator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Connect opens the client.
func Connect(ctx context.Context) (*zkrecipes.Client, error) {
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		SessionTimeout: 60 * time.Second, // Curator's default; the library's is 10 s
		Prefix:         "/shop",          // the namespace
	})
	return client, err
}

var errBusy = errors.New("busy")

// lockWithin is like lock but returns errBusy if that takes longer than patience.
func lockWithin(ctx context.Context, patience time.Duration, lock func(context.Context) (*zkrecipes.Lease, error)) (*zkrecipes.Lease, error) {
	wait, cancel := context.WithTimeoutCause(ctx, patience, errBusy)
	defer cancel()
	return lock(wait)
}

func mutex(ctx context.Context, client *zkrecipes.Client, ship func(context.Context, zkrecipes.Token) error) (err error) {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	lease, err := lockWithin(ctx, 5*time.Second, orders.Lock)
	if err != nil {
		return err // errors.Is(err, errBusy)
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return ship(lease.Context(ctx), lease.Token()) // ctx, not the one of the wait
}

func readWriteLock(ctx context.Context, client *zkrecipes.Client, publish, verify func(context.Context) error) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	return config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		if err := publish(ctx); err != nil {
			return err
		}
		if err := lease.Downgrade(ctx); err != nil {
			return err
		}
		return verify(ctx) // as a reader
	})
}

func twoZnodes(ctx context.Context, client *zkrecipes.Client, routes, backends []byte) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	return config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx, // both or neither, and only while the lock is held
			zkrecipes.OpSet("/config/routes", routes, -1),
			zkrecipes.OpSet("/config/backends", backends, -1))
		return err
	})
}

func reentry(ctx context.Context, client *zkrecipes.Client, record func(context.Context) error) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	audit := func(ctx context.Context) error { // locks by itself, whoever calls it
		return config.Do(ctx, func(ctx context.Context, _ *zkrecipes.Lease) error {
			return record(ctx)
		})
	}
	return config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		if err := audit(lease.Reentrant(ctx)); err != nil { // with ctx: ErrDeadlock
			return err
		}
		if err := lease.Downgrade(ctx); err != nil { // while audit runs: an error
			return err
		}
		err := audit(lease.Reentrant(ctx))
		if !errors.Is(err, zkrecipes.ErrUpgrade) { // a reader cannot write
			return fmt.Errorf("audit after the downgrade: %w", err)
		}
		return nil
	})
}

// connection says whether the client is connected, as a context that ends when it is not.
type connection struct {
	mu   sync.Mutex
	up   context.Context
	lost context.CancelCauseFunc
}

var errSuspended = errors.New("the connection was lost")

func newConnection() *connection {
	c := &connection{}
	c.up, c.lost = context.WithCancelCause(context.Background())
	return c
}

// changed is Trace.Session.
func (c *connection) changed(e zkrecipes.TraceSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.State != zkrecipes.SessionConnected:
		c.lost(errSuspended)
	case c.up.Err() != nil: // connected again
		c.up, c.lost = context.WithCancelCause(context.Background())
	}
}

// context returns a context that ends with parent, or when the connection is lost.
func (c *connection) context(parent context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return ctx, func() { stop(); cancel(nil) }
}

func suspended(ctx context.Context, servers []string, work func(context.Context) error) error {
	conn := newConnection() // before the client: the Trace is one of its Options
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		Trace: &zkrecipes.Trace{Session: conn.changed},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	return orders.Do(ctx, func(ctx context.Context, _ *zkrecipes.Lease) error {
		ctx, cancel := conn.context(ctx)
		defer cancel()
		return work(ctx) // ctx ends if the lock or the connection is lost
	})
}

func semaphore(ctx context.Context, client *zkrecipes.Client, export func(context.Context, []int) error) (err error) {
	exports := zkrecipes.NewSemaphore(client, "/exports", 4)
	lease, err := exports.AcquireN(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return export(lease.Context(ctx), lease.Slots())
}

func multiLock(ctx context.Context, client *zkrecipes.Client, transfer func(context.Context) error) error {
	from, to := zkrecipes.NewMutex(client, "/accounts/17"), zkrecipes.NewMutex(client, "/accounts/4")
	return zkrecipes.DoAll(ctx, []*zkrecipes.Mutex{from, to}, func(ctx context.Context, held *zkrecipes.Leases) error {
		return transfer(ctx)
	})
}

func leader(ctx context.Context, client *zkrecipes.Client, bill func(context.Context) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return bill(ctx) // until ctx ends; a return resigns
	})
}

// guarded leads only while it also holds the lock that the other library's leader takes.
func guarded(ctx context.Context, client *zkrecipes.Client, bill func(context.Context) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	guard := zkrecipes.NewMutex(client, "/services/billing-guard")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return guard.Do(ctx, func(ctx context.Context, _ *zkrecipes.Lease) error {
			return bill(ctx)
		})
	})
}

func barriers(ctx context.Context, client *zkrecipes.Client, play func(context.Context) error) error {
	if err := zkrecipes.NewGate(client, "/maintenance").Wait(ctx); err != nil {
		return err
	}
	visit, err := zkrecipes.NewDoubleBarrier(client, "/game", 5).Enter(ctx)
	if err != nil {
		return err
	}
	if err := play(visit.Context(ctx)); err != nil {
		return err
	}
	return visit.Leave(ctx)
}

func queue(ctx context.Context, client *zkrecipes.Client, bill func(context.Context, []byte) error) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{Workers: 4})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		return bill(ctx, job.Data)
	})
}

// setValue changes the data of a znode as a SharedValue's trySetValue does, until nobody was quicker.
func setValue(ctx context.Context, client *zkrecipes.Client, path string, change func(old []byte) []byte) error {
	for {
		old, stat, err := client.Get(ctx, path)
		if err != nil {
			return err
		}
		_, err = client.Commit(ctx, zkrecipes.OpSet(path, change(old), stat.Version))
		if !errors.Is(err, zk.ErrBadVersion) {
			return err // nil, or ErrUncertain
		}
	}
}
