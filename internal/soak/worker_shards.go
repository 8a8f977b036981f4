package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// serveShards works on the shards of this process. No fault explains that Serve returns.
func (w *worker) serveShards() {
	x := zkrecipes.NewShards(w.client, shardsKey, shards, &zkrecipes.ShardsOptions{Settle: time.Second})
	began := w.now()
	if err := x.Serve(w.ctx, w.own); w.ctx.Err() == nil {
		w.tell(judge.Event{Kind: judge.Strange, Key: shardsKey, From: began, Err: fmt.Sprint("Serve has returned: ", err)})
	}
}

// own writes to a shard in fenced transactions for as long as this process has it.
func (w *worker) own(ctx context.Context, s *zkrecipes.Shard) error {
	key := shardKey(s.Number())
	o := &worker{process: w.process, link: w.link, name: key[1:]}
	o.rand = w.source(fmt.Sprint(key, int64(s.Token())))
	h := o.granted(s, judge.Event{Recipe: judge.RecipeShards, Key: key})
	for ctx.Err() == nil {
		o.commit(s, key)
		h.believe()
		o.sleep(ctx, 50*time.Millisecond, 150*time.Millisecond)
	}
	h.over()
	return nil
}
