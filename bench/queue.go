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

// payload is what an item holds.
var payload = make([]byte, 100)

// queueScenarios: puts, and takes with their acks, beside what a simple queue does:
// create a znode; list, get and delete the first one that nobody else is quicker
// with. Such a queue loses the item that a consumer has when it dies.
func queueScenarios() (list []scenario) {
	for _, n := range []int{1, 16} {
		list = append(list, scenario{name: namePut(n), workers: n, block: 500, rounds: 9, open: openPuts(n)})
	}
	for _, n := range []int{1, 16} {
		sc := scenario{name: nameTake(n), workers: n, block: 200, rounds: 7}
		sc.open = openTakes(n, &sc)
		list = append(list, sc)
	}
	return list
}

func openPuts(n int) func(r *room) ([]side, error) {
	return func(r *room) ([]side, error) {
		var plainTally, ourTally tally
		conns, err1 := r.conns(n, &plainTally)
		clients, err2 := r.clients(n, &ourTally)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if err := makeNode(conns[0], r.path+"/plain"); err != nil {
			return nil, err
		}
		return []side{
			{plain, &plainTally, func(worker int) error {
				_, err := conns[worker].Create(r.path+"/plain/item-", payload, zk.FlagSequence, zk.WorldACL(zk.PermAll))
				return err
			}},
			{ours, &ourTally, func(worker int) error {
				_, err := zkrecipes.NewQueue(clients[worker], r.path+"/ours", nil).Put(r.ctx, payload)
				return err
			}},
		}, nil
	}
}

// openTakes fills both queues with what will be taken, and so measures takes from
// queues of some length.
func openTakes(n int, sc *scenario) func(r *room) ([]side, error) {
	return func(r *room) ([]side, error) {
		var uncounted, plainTally, ourTally tally
		filler, err1 := r.conn(&uncounted)
		client, err2 := r.client(&uncounted)
		conns, err3 := r.conns(n, &plainTally)
		clients, err4 := r.clients(n, &ourTally)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, err
		}
		if err := makeNode(filler, r.path+"/plain"); err != nil {
			return nil, err
		}
		items := (1 + sc.rounds) * sc.block
		if err := each(items, func(int) error {
			_, err := filler.Create(r.path+"/plain/item-", payload, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		}); err != nil {
			return nil, err
		}
		if err := fill(r.ctx, zkrecipes.NewQueue(client, r.path+"/ours", nil), items); err != nil {
			return nil, err
		}
		queues := make([]*zkrecipes.Queue, n)
		for i := range queues {
			queues[i] = zkrecipes.NewQueue(clients[i], r.path+"/ours", nil)
		}
		return []side{
			{plain, &plainTally, func(worker int) error { return plainTake(conns[worker], r.path+"/plain") }},
			{ours, &ourTally, func(worker int) error { return take(r.ctx, queues[worker]) }},
		}, nil
	}
}

// fill puts items, a hundred at a time.
func fill(ctx context.Context, q *zkrecipes.Queue, items int) error {
	for batch := slices.Repeat([][]byte{payload}, 100); items > 0; items -= len(batch) {
		if _, err := q.PutAll(ctx, batch[:min(items, len(batch))]...); err != nil {
			return err
		}
	}
	return nil
}

func take(ctx context.Context, q *zkrecipes.Queue) error {
	item, err := q.Take(ctx)
	if err != nil {
		return err
	}
	return item.Ack(ctx)
}

// plainTake takes the first item: list, get, delete, and the next one where
// somebody else was quicker.
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

// drain is what it took to empty a long queue.
type drain struct {
	Items, Consumers int
	counts           counts
	time             time.Duration
}

func (d drain) ItemsFloat() float64 { return float64(d.Items) }

func (d drain) Bytes() float64    { return float64(d.counts.Received) / float64(d.Items) }
func (d drain) Requests() float64 { return float64(d.counts.Requests) / float64(d.Items) }
func (d drain) Commits() float64  { return float64(d.counts.Commits) / float64(d.Items) }
func (d drain) Rate() float64     { return float64(d.Items) / d.time.Seconds() }

// drains fills a queue, and has it emptied by consumers in sessions of their own,
// with Serve.
func (l *lab) drains(ctx context.Context, items, consumers int) (*drain, error) {
	const limit = 3 * limit // it takes minutes
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	r := l.room(ctx)
	defer r.close()
	var uncounted, ourTally tally
	filler, err1 := r.client(&uncounted)
	clients, err2 := r.clients(consumers, &ourTally)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := fill(ctx, zkrecipes.NewQueue(filler, r.path+"/ours", nil), items); err != nil {
		return nil, err
	}
	began, sent := time.Now(), ourTally.read()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	done := 0
	errs := make([]error, consumers)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			errs[i] = zkrecipes.NewQueue(c, r.path+"/ours", nil).Serve(serving, func(context.Context, *zkrecipes.Item) error {
				mu.Lock()
				defer mu.Unlock()
				if done++; done == items {
					stop()
				}
				return nil
			})
			if errors.Is(errs[i], context.Canceled) && ctx.Err() == nil {
				errs[i] = nil
			}
		})
	}
	wg.Wait()
	d := &drain{Items: items, Consumers: consumers, counts: ourTally.read().minus(sent), time: time.Since(began)}
	return d, errors.Join(errs...)
}
