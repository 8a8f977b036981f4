package costs

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// serves has a client work on n shards for the rest of the row.
func serves(w *world, c *zkrecipes.Client, n int) {
	ctx, cancel := context.WithCancel(w.ctx())
	done := make(chan error, 1)
	go func() {
		done <- zkrecipes.NewShards(c, "/shards", n, nil).Serve(ctx, func(ctx context.Context, _ *zkrecipes.Shard) error {
			<-ctx.Done()
			return nil
		})
	}()
	w.stopServing = func(*world) {
		cancel()
		w.ok(<-done)
	}
	w.t.Cleanup(cancel)
	time.Sleep(time.Second)
}

func iServe(n int) step    { return func(w *world) { serves(w, w.c, n) } }
func theyServe(n int) step { return func(w *world) { serves(w, w.other, n) } }

// sharing is a world where two processes have shared out four shards.
var sharing = all(theyServe(4), settle, iServe(4), pass(time.Minute))

var shardsRows = []row{
	{"Serve: to begin, the path does not exist, one shard", steps{iServe(1)}},
	{"Serve: another process comes, and gets two of four shards", steps{theyServe(4), settle, iServe(4), pass(time.Minute)}},
	{"Serve: one of two processes stops, which has two of four shards", steps{sharing, func(w *world) { w.stopServing(w) }, pass(time.Second)}},
	{"Serve by two processes: for an hour", steps{sharing, settle, pass(time.Hour)}},
	{"Owners of four shards of two processes", steps{sharing, func(w *world) {
		_, err := zkrecipes.NewShards(w.c, "/shards", 4, nil).Owners(w.ctx())
		w.ok(err)
	}}},
}
