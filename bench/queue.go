package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

const plain = "plain"

func namePut(n int) string  { return fmt.Sprintf("queue: put, %d %s", n, clientsText(n)) }
func nameTake(n int) string { return fmt.Sprintf("queue: take and ack, %d %s", n, clientsText(n)) }

func clientsText(n int) string {
	if n == 1 {
		return "client"
	}
	return "clients"
}

// payload is the data of an item.
var payload = make([]byte, 100)

// queueScenarios returns the scenarios of the queue: puts, and takes with their acks.
// They are compared with a plain queue, which creates a znode to put an item, and
// lists, gets and deletes the first item that no other consumer took sooner. If a
// consumer of the plain queue dies, the item that it has is lost.
func queueScenarios() (list []scenario) {
	for _, n := range []int{1, 16} {
		list = append(list, scenario{name: namePut(n), workers: n, block: 500, rounds: 9, open: openPuts(n)})
	}
	for _, n := range []int{1, 16} {
		sc := scenario{name: nameTake(n), workers: n, block: 200, rounds: 7}
		if n > 1 {
			sc.lead = 2 * n
		}
		sc.open = openTakes(n, n, 1, &sc)
		list = append(list, sc)
	}
	sc := scenario{name: nameWorkers, workers: 16, lead: 32, block: 200, rounds: 7}
	sc.open = openTakes(16, 4, 1, &sc)
	list = append(list, sc)
	sc = scenario{name: nameTakeN, workers: 16, lead: 128, block: 400, rounds: 7}
	sc.open = openTakes(16, 16, takeN, &sc)
	return append(list, sc)
}

const (
	// nameWorkers is the scenario of processes with several workers each.
	nameWorkers = "queue: take and ack, 16 workers of 4 clients"
	// nameTakeN is that of consumers that take several items at a time, and ack each.
	nameTakeN = "queue: take 4 and ack each, 16 clients"
	takeN     = 4
)

func openPuts(n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var plainTally, ourTally tally
		conns, err1 := fx.conns(n, &plainTally)
		clients, err2 := fx.clients(n, &ourTally)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if err := makeNode(conns[0], fx.path+"/plain"); err != nil {
			return nil, err
		}
		return []side{
			{plain, &plainTally, func(worker int) error {
				_, err := conns[worker].Create(fx.path+"/plain/item-", payload, zk.FlagSequence, zk.WorldACL(zk.PermAll))
				return err
			}},
			{ours, &ourTally, func(worker int) error {
				_, err := zkrecipes.NewQueue(clients[worker], fx.path+"/ours", nil).Put(fx.ctx, payload)
				return err
			}},
		}, nil
	}
}

// openTakes fills both queues with all items that will be taken, and so measures takes
// from queues of some length. The workers share n sessions. Ours take so many items at a
// time.
func openTakes(workers, n, atATime int, sc *scenario) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) ([]side, error) {
		var uncounted, plainTally, ourTally tally
		filler, err1 := fx.conn(&uncounted)
		client, err2 := fx.client(&uncounted)
		conns, err3 := fx.conns(n, &plainTally)
		clients, err4 := fx.clients(n, &ourTally)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, err
		}
		if err := makeNode(filler, fx.path+"/plain"); err != nil {
			return nil, err
		}
		items := (1+sc.rounds)*(sc.lead+sc.block) + workers*(atATime-1)
		if err := each(items, func(int) error {
			_, err := filler.Create(fx.path+"/plain/item-", payload, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		}); err != nil {
			return nil, err
		}
		if err := fill(fx.ctx, zkrecipes.NewQueue(client, fx.path+"/ours", nil), items); err != nil {
			return nil, err
		}
		consumers := make([]consumer, workers)
		for i := range consumers {
			consumers[i] = consumer{q: zkrecipes.NewQueue(clients[i%n], fx.path+"/ours", nil), atATime: atATime}
		}
		return []side{
			{plain, &plainTally, func(worker int) error { return plainTake(conns[worker%n], fx.path+"/plain") }},
			{ours, &ourTally, func(worker int) error { return consumers[worker].take(fx.ctx) }},
		}, nil
	}
}

// fill puts items into the queue, a hundred at a time.
func fill(ctx context.Context, q *zkrecipes.Queue, items int) error {
	for batch := slices.Repeat([][]byte{payload}, 100); items > 0; items -= len(batch) {
		if _, err := q.PutAll(ctx, batch[:min(items, len(batch))]...); err != nil {
			return err
		}
	}
	return nil
}

// consumer takes items from a queue, one or several at a time.
type consumer struct {
	q       *zkrecipes.Queue
	atATime int
	taken   []*zkrecipes.Item
}

// take takes an item, if it has none, and acks one.
func (c *consumer) take(ctx context.Context) (err error) {
	if len(c.taken) == 0 {
		if c.taken, err = c.q.TakeN(ctx, c.atATime); err != nil {
			return err
		}
	}
	item := c.taken[0]
	c.taken = c.taken[1:]
	return item.Ack(ctx)
}

// plainTake takes the first item of a plain queue: it lists, gets and deletes. If
// another consumer took the item sooner, it tries the next one.
func plainTake(conn *zk.Conn, path string) error {
	for {
		names, _, err := conn.Children(path)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			_, stat, err := conn.Get(path + "/" + name)
			if err == nil {
				err = conn.Delete(path+"/"+name, stat.Version)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
	}
}

// drain is the cost of emptying a long queue.
type drain struct {
	Items, Consumers int
	Workers          int // of each consumer
	counts           counts
	time             time.Duration
}

func (d drain) ItemsFloat() float64 { return float64(d.Items) }

func (d drain) Bytes() float64    { return float64(d.counts.Received) / float64(d.Items) }
func (d drain) Requests() float64 { return float64(d.counts.Requests) / float64(d.Items) }
func (d drain) Commits() float64  { return float64(d.counts.Commits) / float64(d.Items) }
func (d drain) Rate() float64     { return float64(d.Items) / d.time.Seconds() }

// drainQueue fills a queue and empties it with Serve, by consumers in sessions of their
// own, which have some workers each.
func (l *lab) drainQueue(ctx context.Context, items, consumers, workers int) (*drain, error) {
	fx := l.fixture(ctx, 3*limit) // it takes minutes
	defer fx.close()
	var uncounted, ourTally tally
	filler, err1 := fx.client(&uncounted)
	clients, err2 := fx.clients(consumers, &ourTally)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := fill(fx.ctx, zkrecipes.NewQueue(filler, fx.path+"/ours", nil), items); err != nil {
		return nil, err
	}
	began, sent := time.Now(), ourTally.read()
	serving, stop := context.WithCancel(fx.ctx)
	defer stop()
	var mu sync.Mutex
	done := 0
	errs := make([]error, consumers)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			errs[i] = zkrecipes.NewQueue(c, fx.path+"/ours", &zkrecipes.QueueOptions{Workers: workers}).Serve(serving, func(context.Context, *zkrecipes.Item) error {
				mu.Lock()
				defer mu.Unlock()
				if done++; done == items {
					stop()
				}
				return nil
			})
		})
	}
	wg.Wait()
	if done < items {
		errs = append(errs, fmt.Errorf("%d of %d items: %w", done, items, context.Cause(fx.ctx)))
	}
	d := &drain{Items: items, Consumers: consumers, Workers: workers, counts: ourTally.read().minus(sent), time: time.Since(began)}
	return d, errors.Join(errs...)
}
