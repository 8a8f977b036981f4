package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/zkrecipes/zkrecipes"
)

// opener opens a client of its own for a lock, and returns what closes it.
type opener func(ctx context.Context, addr, path string, timeout time.Duration) (lock, func(), error)

func openZooKeeper(ctx context.Context, addr, path string, timeout time.Duration) (lock, func(), error) {
	c, err := zkrecipes.Dial(ctx, []string{addr}, &zkrecipes.Options{SessionTimeout: timeout})
	if err != nil {
		return lock{}, nil, err
	}
	return ourLock(ctx, zkrecipes.NewMutex(c, path).Lock), func() { c.Close() }, nil
}

func openEtcd(ctx context.Context, addr, path string, timeout time.Duration) (lock, func(), error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return lock{}, nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(timeout.Seconds())))
	if err != nil {
		return lock{}, nil, errors.Join(err, c.Close())
	}
	m := concurrency.NewMutex(s, path)
	return lock{func() error { return m.Lock(ctx) }, func() error { return m.Unlock(ctx) }},
		func() { s.Close(); c.Close() }, nil
}

// redisPolls is how often a waiter looks in Redis, as in redislock's documentation.
const redisPolls = 100 * time.Millisecond

func openRedis(ctx context.Context, addr, path string, timeout time.Duration) (lock, func(), error) {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	locker := redislock.New(c)
	var held *redislock.Lock
	var stop func()
	return lock{
		func() (err error) {
			held, err = locker.Obtain(ctx, path, timeout, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redisPolls)})
			if err == nil {
				stop = every(timeout/3, func() { held.Refresh(ctx, timeout, nil) })
			}
			return err
		},
		func() error {
			stop()
			return held.Release(ctx)
		},
	}, func() { c.Close() }, nil
}

// every calls f at intervals until it is stopped.
func every(interval time.Duration, f func()) (stop func()) {
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-stopped:
				return
			}
		}
	})
	return func() { close(stopped); wg.Wait() }
}
