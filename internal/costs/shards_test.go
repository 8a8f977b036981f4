package costs

import (
	"context"
	"sync"
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
			time.Sleep(10 * time.Millisecond) // so that the process first tells that the shard is to go
			return nil
		})
	}()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	w.stopServing = func(*world) { w.ok(stop()) }
	w.t.Cleanup(func() { _ = stop() })
	time.Sleep(time.Second)
}

func iServe(n int) step    { return func(w *world) { serves(w, w.c, n) } }
func theyServe(n int) step { return func(w *world) { serves(w, w.other, n) } }

// sharing is a world where two processes have shared out two shards. One shard moves at a time: what a
// process tells of two that change at one instant may be one write or two.
var sharing = all(theyServe(2), settle, iServe(2), pass(time.Minute))

var shardsRows = []row{
	{"Serve: to begin, the path does not exist, one shard", steps{iServe(1)}},
	{"Serve: another process comes, and gets one of two shards", steps{theyServe(2), settle, iServe(2), pass(time.Minute)}},
	{"Serve: one of two processes stops, which has one of two shards", steps{sharing, func(w *world) { w.stopServing(w) }, pass(time.Second)}},
	{"Serve by two processes: for an hour", steps{sharing, settle, pass(time.Hour)}},
	{"Owners of two shards of two processes", steps{sharing, func(w *world) {
		_, err := zkrecipes.NewShards(w.c, "/shards", 2, nil).Owners(w.ctx())
		w.ok(err)
	}}},
}
