package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestOldestItemThatHangsIsReported(t *testing.T) {
	jobs := zkrecipes.NewQueue(codetest.Dial(t, zktest.NewServer(t)), "/hanging", nil)
	id, err := jobs.Put(t.Context(), []byte("invoice 17"))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, reportHanging(t.Context(), &out, jobs, -time.Hour))
	require.Empty(t, out.String(), "nobody has it")
	job, err := jobs.Take(t.Context())
	require.NoError(t, err)
	require.NoError(t, reportHanging(t.Context(), &out, jobs, time.Hour))
	require.Empty(t, out.String(), "not for long")
	require.NoError(t, reportHanging(t.Context(), &out, jobs, -time.Hour))
	require.Contains(t, out.String(), string(id)+" hangs at ")
	require.NoError(t, job.Ack(t.Context()))
}

func TestDeadLettersAreCountedAndListed(t *testing.T) {
	client := codetest.Dial(t, zktest.NewServer(t))
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
	id, err := jobs.Put(t.Context(), []byte("invoice 17"))
	require.NoError(t, err)
	n, err := deadLetters(t.Context(), jobs)
	require.NoError(t, err)
	require.Zero(t, n)

	stop := later(t, func(ctx context.Context) error { return jobs.Serve(ctx, failing) })
	letter, err := jobs.DeadLetters().Take(t.Context())
	require.NoError(t, err)
	require.NoError(t, letter.Nack(t.Context()))
	require.NoError(t, stop())

	n, err = deadLetters(t.Context(), jobs)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	var text strings.Builder
	require.NoError(t, list(t.Context(), &text, jobs))
	require.Equal(t, string(id)+": taken 1 times: no paper\n", text.String())
}

func TestTheLoopAcksWhatWasDoneAndGivesBackWhatFailed(t *testing.T) {
	jobs := zkrecipes.NewQueue(codetest.Dial(t, zktest.NewServer(t)), "/jobs", nil)
	_, err := jobs.PutAll(t.Context(), []byte("1"), []byte("2"))
	require.NoError(t, err)
	failed := errors.New("failed")
	err = takeAndAck(t.Context(), jobs, func(_ context.Context, job *zkrecipes.Item) error {
		if string(job.Data) == "2" {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, err, failed)
	job, err := jobs.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, "2", string(job.Data))
	require.Equal(t, 2, job.Attempt)
	require.NoError(t, job.Ack(t.Context()))
	n, err := jobs.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}
