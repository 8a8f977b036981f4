package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// later runs f, and returns a function that ends its context and returns its error.
func later(t *testing.T, f func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	return func() error {
		cancel()
		return <-result
	}
}

func failing(context.Context, *zkrecipes.Item) error { return errors.New("no paper") }

func TestEachDeadLetterIsReportedOnceAndAgainIfItDiesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := codetest.Dial(t, zktest.NewServer(t, zktest.InMemory()))
		jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1})
		var told []string
		stopWatching := later(t, func(ctx context.Context) error {
			return watchDeadLetters(ctx, jobs, time.Minute, func(e zkrecipes.Entry) {
				told = append(told, string(e.Data)+": "+e.Failure.Text)
			})
		})
		stopServing := later(t, func(ctx context.Context) error { return jobs.Serve(ctx, failing) })
		_, err := jobs.Put(t.Context(), []byte("invoice 17"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"invoice 17: no paper"}, told)

		moved, err := redriveAll(t.Context(), jobs)
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"invoice 17: no paper", "invoice 17: no paper"}, told)
		require.NoError(t, stopServing())
		require.ErrorIs(t, stopWatching(), context.Canceled)
	})
}

func TestWithTheDefaultsAnItemIsADeadLetterAfterLessThanFourMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := codetest.Dial(t, zktest.NewServer(t, zktest.InMemory()))
		jobs := zkrecipes.NewQueue(client, "/jobs", nil)
		stop := later(t, func(ctx context.Context) error { return jobs.Serve(ctx, failing) })
		began := time.Now()
		_, err := jobs.Put(t.Context(), nil)
		require.NoError(t, err)
		letter, err := jobs.DeadLetters().Take(t.Context())
		require.NoError(t, err)
		require.Equal(t, 231*time.Second, time.Since(began).Round(time.Second))
		require.Equal(t, 16, letter.Failure.Attempts)
		require.NoError(t, stop())
	})
}

func TestItemsThatNoAttemptCanHelpAreRejectedAtOnce(t *testing.T) {
	client := codetest.Dial(t, zktest.NewServer(t))
	jobs, rejected := zkrecipes.NewQueue(client, "/jobs", nil), zkrecipes.NewQueue(client, "/jobs-rejected", nil)
	_, err := jobs.PutAll(t.Context(), []byte("bad"), []byte("good"))
	require.NoError(t, err)
	billed := make(chan string, 1)
	stop := later(t, func(ctx context.Context) error {
		return serveOrReject(ctx, jobs, rejected, func(_ context.Context, data []byte) error {
			if string(data) == "bad" {
				return errMalformed
			}
			billed <- string(data)
			return nil
		})
	})
	job, err := rejected.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bad", string(job.Data))
	require.Equal(t, "good", <-billed)
	require.NoError(t, stop())
	n, err := jobs.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}
