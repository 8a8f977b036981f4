package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	shardsPath = "/shards/orders"

	// These are short for the sake of the demo. Use 10 s or more, and the default, in a service.
	sessionTimeout = 2 * time.Second
	settle         = 500 * time.Millisecond
)

// params are the parameters of a worker.
type params struct {
	demo.Env
	ID, Shards int
}

// work works on this process's shards until ctx ends.
func work(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "worker "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	shards := zkrecipes.NewShards(client, shardsPath, p.Shards, &zkrecipes.ShardsOptions{Settle: settle})
	return shards.Serve(ctx, func(ctx context.Context, shard *zkrecipes.Shard) error {
		return writeTo(ctx, p.ID, shard)
	})
}

// writeTo writes to a shard for as long as this process has it. A write is refused once it has not.
func writeTo(ctx context.Context, worker int, shard *zkrecipes.Shard) error {
	for ctx.Err() == nil {
		results, err := shard.Commit(ctx, zkrecipes.OpSet(tablePath(shard.Number()), fmt.Append(nil, "worker ", worker), -1))
		if err != nil {
			return err
		}
		demo.Tell(report{Worker: worker, Shard: shard.Number(), Token: int64(shard.Token()), Version: results[0].Stat.Version})
		if err := demo.Pause(ctx, 20*time.Millisecond, 40*time.Millisecond); err != nil {
			break
		}
	}
	demo.Tell(report{Worker: worker, Shard: shard.Number(), Token: int64(shard.Token()), Ends: true})
	return nil
}

func tablePath(shard int) string { return fmt.Sprint("/table/", shard) }

// report says that a worker has written the Version of a shard's znode under the Token, or that it
// has ended its work on the shard.
type report struct {
	Worker, Shard int
	Token         int64
	Version       int32
	Ends          bool
}
