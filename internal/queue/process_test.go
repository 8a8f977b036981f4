//go:build unix

package queue_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Consumers in processes of their own, which are killed.

// TestConsumerProcess is what a process does that works on a queue with four workers. In
// any other process it does nothing.
func TestConsumerProcess(t *testing.T) {
	if os.Getenv(recipetest.HolderEnv) != "consumer" {
		return
	}
	c := recipetest.Dial(t, &zkrecipes.Options{SessionTimeout: consumerTimeout})
	q := zkrecipes.NewQueue(c, os.Getenv(recipetest.PathEnv), &zkrecipes.QueueOptions{Workers: 4})
	fmt.Println(recipetest.ReportMark + "{}")
	_ = q.Serve(t.Context(), func(context.Context, *zkrecipes.Item) error { return nil }) // until the process is killed
}

// consumerTimeout is longer than the test takes: the places of the dead stand all the while.
const consumerTimeout = 5 * time.Minute

// Processes that stand at the head of the consumers' line are killed. Two live ones go
// on while the places of the dead still stand.
func TestRealDeliveriesGoOnWhenTheProcessAtTheHeadIsKilled(t *testing.T) {
	t.Parallel()
	server := harness.OwnServer(t, zkserver.Config{TickTime: consumerTimeout / 20}, zktest.TickTime(consumerTimeout/20), zktest.SessionTimeouts(time.Second, consumerTimeout))
	for _, killed := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d killed", killed), func(t *testing.T) { testKilledAtTheHead(t, []string{server}, killed) })
	}
}

func testKilledAtTheHead(t *testing.T, servers []string, n int) {
	path, conn := harness.NewPath(t), harness.RawTo(t, servers)
	ctx := harness.Within(t, 2*time.Minute)
	opts := &zkrecipes.Options{SessionTimeout: consumerTimeout}
	producer := zkrecipes.NewQueue(recipetest.DialTo(t, servers, opts), path, nil)
	recipetest.PutOn(t, producer, "first")
	recipetest.Drain(t, producer)
	var doomed []*recipetest.Process
	for i := range n {
		p := recipetest.StartProcess(t, servers, "", "TestConsumerProcess", "consumer", path)
		p.Report()
		doomed = append(doomed, p)
		recipetest.LineUp(t, conn, path+"/line", i+1)
	}
	dead := harness.Children(t, conn, path+"/line")
	var delivered atomic.Int64
	for i := range 2 {
		recipetest.ServeLater(t, zkrecipes.NewQueue(recipetest.DialTo(t, servers, opts), path, &zkrecipes.QueueOptions{Workers: 4}), func(context.Context, *zkrecipes.Item) error {
			delivered.Add(1)
			return nil
		})
		recipetest.LineUp(t, conn, path+"/line", n+i+1)
	}
	time.Sleep(10 * queue.ItemPatience) // all have settled
	for _, p := range doomed {
		p.Signal(syscall.SIGKILL)
	}
	puts := int64(0)
	for began := time.Now(); time.Since(began) < 10*queue.ItemPatience; puts++ { // a hundred a second
		_, err := producer.Put(ctx, []byte("x"))
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
	}
	harness.Eventually(t, "all items", func() bool { return delivered.Load() >= puts })
	require.Subset(t, harness.Children(t, conn, path+"/line"), dead, "nobody waited for the sessions of the dead to end")
}
