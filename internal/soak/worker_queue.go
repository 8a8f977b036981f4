package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// put puts an item, whose data is its name.
func (w *worker) put(q *zkrecipes.Queue, key, infix string) {
	if w.finished() {
		<-w.ctx.Done()
		return
	}
	item := fmt.Sprintf("%d.%d-%s%s%d", w.Process, w.Life, w.name, infix, w.n)
	w.attempt(judge.Event{Recipe: judge.RecipePut, Key: key + judge.PutSuffix, Item: item}, func(*judge.Event) error {
		_, err := q.Put(w.ctx, []byte(item))
		return err
	})
	producers := time.Duration(w.Members) // however many there are, the consumers keep up with them
	w.sleep(w.ctx, producers*15*time.Millisecond, producers*60*time.Millisecond)
}

// take takes an item and acks it.
func (w *worker) take(ctx context.Context, q *zkrecipes.Queue, key string) {
	if it := acquire(ctx, w, q.Take, judge.Event{Recipe: judge.RecipeTake, Key: key}); it != nil {
		w.handle(it, key)
	}
}

// serve hands items to handlers until the run ends.
func (w *worker) serve(q *zkrecipes.Queue, key string, handle func(*worker, *zkrecipes.Item) error) {
	handlers := make(chan *worker, 2)
	for i := range cap(handlers) {
		h := *w
		h.name = fmt.Sprintf("%s-%d", w.name, i)
		handlers <- &h
	}
	err := q.Serve(w.ctx, func(_ context.Context, it *zkrecipes.Item) error {
		h := <-handlers
		defer func() { handlers <- h }()
		return handle(h, it)
	})
	w.check(key, err)
}

// handle works on an item. The ack leaves a znode, once; sometimes the item is given
// back instead. A process that is to end finishes that: else the handler returns nil, and Serve acks
// the item without the znode.
func (w *worker) handle(it *zkrecipes.Item, key string) {
	item := string(it.Data)
	e := judge.Event{Recipe: judge.RecipeTake, Key: key, Item: item, Attempt: it.Attempt, Failures: it.Failure.Attempts}
	h := w.granted(it, e)
	h.work(w.ctx)
	if w.oneIn(20) {
		w.check(key, it.Nack(context.WithoutCancel(w.ctx)))
	} else if err := it.Ack(context.WithoutCancel(w.ctx), zkrecipes.OpCreate(doneName(item, h.event.Token), nil, zk.FlagSequence, nil)); err != nil {
		w.check(key, err)
	} else {
		e.Kind, e.Token = judge.Acked, h.event.Token
		w.tell(e)
	}
	h.over()
}
