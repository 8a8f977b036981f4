//go:build unix

package queue_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Consumers in processes of their own, which are killed.

// TestConsumerProcess is what a process does that works on a queue with four workers. In
// any other process it does nothing.
func TestConsumerProcess(t *testing.T) {
	if os.Getenv(recipetest.HolderEnv) != "consumer" {
		return
	}
	q := zkrecipes.NewQueue(recipetest.Dial(t, nil), os.Getenv(recipetest.PathEnv), &zkrecipes.QueueOptions{Workers: 4})
	fmt.Println(recipetest.ReportMark + "{}")
	_ = q.Serve(t.Context(), func(context.Context, *zkrecipes.Item) error { return nil }) // until the process is killed
}

// B79: Processes that stand at the head of the consumers' line are killed. Two live ones go
// on within some graces.
func TestRealDeliveriesGoOnWhenTheProcessAtTheHeadIsKilled(t *testing.T) {
	t.Parallel()
	for _, killed := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d killed", killed), func(t *testing.T) {
			t.Parallel()
			testKilledAtTheHead(t, killed)
		})
	}
}

func testKilledAtTheHead(t *testing.T, n int) {
	path, conn := harness.NewPath(t), harness.Raw(t)
	ctx := harness.Within(t, time.Minute)
	producer := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	recipetest.PutOn(t, producer, "first")
	recipetest.Drain(t, producer)
	var doomed []*recipetest.Process
	for i := range n {
		p := recipetest.StartProcess(t, "", "TestConsumerProcess", "consumer", path)
		p.Report()
		doomed = append(doomed, p)
		recipetest.LineUp(t, conn, path+"/line", i+1)
	}
	var mu sync.Mutex
	var at []time.Time
	for i := range 2 {
		recipetest.ServeLater(t, zkrecipes.NewQueue(recipetest.Dial(t, nil), path, &zkrecipes.QueueOptions{Workers: 4}), func(context.Context, *zkrecipes.Item) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			return nil
		})
		recipetest.LineUp(t, conn, path+"/line", n+i+1)
	}
	time.Sleep(10 * queue.Grace) // all have settled
	for _, p := range doomed {
		p.Signal(syscall.SIGKILL)
	}
	began := time.Now()
	puts := 0
	for time.Since(began) < 10*queue.Grace { // a hundred a second
		_, err := producer.Put(ctx, []byte("x"))
		require.NoError(t, err)
		puts++
		time.Sleep(10 * time.Millisecond)
	}
	harness.Eventually(t, "all items", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(at) >= puts
	})
	gap := at[0].Sub(began)
	for i := range at[1:] {
		gap = max(gap, at[i+1].Sub(at[i]))
	}
	t.Logf("%d killed: %d items, longest time without a delivery %v at a session timeout of %v", n, puts, gap.Round(time.Millisecond), recipetest.DefaultSessionTimeout)
	require.Less(t, gap, recipetest.DefaultSessionTimeout/2, "nobody waited for a session to end")
}
