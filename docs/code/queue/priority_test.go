package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestTheMostUrgentItemIsTakenAndEmptyQueuesCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		client := codetest.Dial(t, srv)
		var queues []*zkrecipes.Queue
		for _, path := range []string{"/urgent", "/normal", "/later"} {
			jobs := zkrecipes.NewQueue(client, path, nil)
			queues = append(queues, jobs)
			_, err := jobs.Put(t.Context(), []byte(path))
			require.NoError(t, err)
		}
		for _, want := range []string{"/urgent", "/normal", "/later"} {
			job, err := takeFirst(t.Context(), time.Second, queues...)
			require.NoError(t, err)
			require.Equal(t, want, string(job.Data))
			require.NoError(t, job.Ack(t.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		before := srv.Counts()
		_, err := takeFirst(ctx, time.Second, queues...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		requests := 0
		for op, n := range srv.Counts().Sub(before).Requests {
			if op != "ping" {
				requests += n
			}
		}
		require.LessOrEqual(t, requests, 2*len(queues), "300 looks")
	})
}
