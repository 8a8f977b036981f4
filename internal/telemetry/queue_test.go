package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/telemetry"
)

// poll polls in the background until the test or the returned function ends it.
func (r *rig) poll(t *testing.T, q *zkrecipes.Queue, interval time.Duration) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.PollQueue(ctx, q, interval) }()
	return func() error {
		cancel()
		return <-result
	}
}

func put(t *testing.T, q *zkrecipes.Queue, items ...string) {
	for _, data := range items {
		_, err := q.Put(t.Context(), []byte(data))
		require.NoError(t, err)
	}
}

func TestAPollShowsLengthAgeAndDeadLetters(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		q := zkrecipes.NewQueue(c, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
		end := r.poll(t, q, 10*time.Second)
		require.Equal(t, []telemetry.Queue{{}}, r.figures().Queues, "at once, of a queue that does not exist")
		put(t, q, "a")
		time.Sleep(3 * time.Second)
		put(t, q, "b")
		taken, err := q.Take(t.Context())
		require.NoError(t, err)
		require.Equal(t, []telemetry.Queue{{}}, r.figures().Queues, "until the next poll")
		time.Sleep(7 * time.Second)
		require.Equal(t, []telemetry.Queue{{Len: 2, Oldest: 10 * time.Second}}, r.figures().Queues)
		require.NoError(t, taken.Nack(t.Context()))
		last, err := q.Take(t.Context()) // moves the first one to the dead letters
		require.NoError(t, err)
		require.NoError(t, last.Ack(t.Context()))
		time.Sleep(10 * time.Second)
		require.Equal(t, []telemetry.Queue{{Dead: 1}}, r.figures().Queues)
		require.NoError(t, end())
		require.Empty(t, r.figures().Queues)
	})
}

func TestQueuesWithTheSameLabelAreAddedUp(t *testing.T) {
	label := func(path string) string { return path[:2] }
	inBubble(t, label, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		for i, path := range []string{"/a1", "/a2", "/b"} {
			q := zkrecipes.NewQueue(c, path, nil)
			put(t, q, "x")
			time.Sleep(time.Minute)
			put(t, q, "y", "z")
			defer r.poll(t, q, time.Hour)()
			synctest.Wait()
			require.Len(t, r.figures().Queues, 1+i/2)
		}
		require.Equal(t, []telemetry.Queue{
			{Path: "/a", Len: 6, Oldest: time.Minute}, {Path: "/b", Len: 3, Oldest: time.Minute},
		}, r.figures().Queues)
	})
}

func TestDeadLettersThatQueuesShareAreCountedOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		for _, path := range []string{"/a", "/b"} {
			q := zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{DeadLetter: "/dead"})
			id, err := q.Put(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, q.Bury(t.Context(), id))
			defer r.poll(t, q, time.Minute)()
		}
		time.Sleep(time.Minute + time.Second)
		require.Equal(t, []telemetry.Queue{{Dead: 2}}, r.figures().Queues)
	})
}

func TestAQueueIsNotShownWhileItsPollGetsNoAnswer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		q := zkrecipes.NewQueue(c, "/q", nil)
		put(t, q, "a")
		end := r.poll(t, q, time.Minute)
		require.Len(t, r.figures().Queues, 1)
		r.Srv.Stop()
		time.Sleep(2*time.Minute + time.Second)
		require.Empty(t, r.figures().Queues)
		r.Srv.Restart()
		time.Sleep(3 * time.Minute)
		require.Len(t, r.figures().Queues, 1)
		require.NoError(t, end())
	})
}

func TestAPollEndsWithTheClientAndIfItIsRefused(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(r.Trace())
		q := zkrecipes.NewQueue(c, "/q", nil)
		put(t, q, "a")
		require.Error(t, r.PollQueue(t.Context(), q, 0))
		require.Error(t, r.PollQueue(t.Context(), nil, time.Second))
		_, err := zkrecipes.NewSemaphore(c, "/s", 3).Acquire(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, r.PollQueue(t.Context(), zkrecipes.NewQueue(c, "/s", nil), time.Second), zkrecipes.ErrPathInUse)

		ended := make(chan error, 1)
		go func() { ended <- r.PollQueue(t.Context(), q, time.Second) }()
		require.Len(t, r.figures().Queues, 1)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, zkrecipes.ErrClosed)
		require.Empty(t, r.figures().Queues)
	})
}

func TestEachErrorHasAType(t *testing.T) {
	for err, want := range map[error]string{
		nil:                                 "",
		errors.New("other"):                 "_OTHER",
		zk.ErrNoAuth:                        "no_auth",
		zk.ErrAuthFailed:                    "auth_failed",
		zkrecipes.ErrLost:                   "lost",
		zkrecipes.ErrSize:                   "size",
		context.Canceled:                    "canceled",
		&zkrecipes.Error{Err: zk.ErrNoAuth}: "no_auth",
		fmt.Errorf("%w: %w", zkrecipes.ErrLocked, zkrecipes.ErrUpgrade):    "locked",
		fmt.Errorf("%w: %w", zkrecipes.ErrUncertain, context.Canceled):     "uncertain",
		fmt.Errorf("%w: %w", context.DeadlineExceeded, zkrecipes.ErrLost):  "deadline_exceeded",
		fmt.Errorf("%w: %w", zkrecipes.ErrLost, zk.ErrSessionExpired):      "lost",
		fmt.Errorf("%w: %w", zkrecipes.ErrLost, zkrecipes.ErrMaxHold):      "max_hold",
		fmt.Errorf("%w: %w", zkrecipes.ErrContended, zk.ErrNoAuth):         "contended",
		fmt.Errorf("%w: %w", zkrecipes.ErrUncertain, zkrecipes.ErrClosed):  "uncertain",
		fmt.Errorf("%w (%w)", zkrecipes.ErrPathInUse, zkrecipes.ErrUnused): "path_in_use",
	} {
		require.Equal(t, want, telemetry.ErrorType(err), "%v", err)
	}
	for _, orderly := range []error{nil, context.Canceled, zkrecipes.ErrClosed, zkrecipes.ErrLocked, zkrecipes.ErrEmpty} {
		require.True(t, telemetry.IsOrderly(orderly), "%v", orderly)
	}
	for _, failure := range []error{context.DeadlineExceeded, zkrecipes.ErrLost, zkrecipes.ErrUncertain, errors.New("other")} {
		require.False(t, telemetry.IsOrderly(failure), "%v", failure)
	}
}

// requests returns how many requests f sends.
func (r *rig) requests(f func()) (n int) {
	count := func() (n int) {
		for op, times := range r.Srv.Counts().Requests {
			if op != "ping" {
				n += times
			}
		}
		return n
	}
	before := count()
	f()
	return count() - before
}

func TestAPollCostsWhatTwoCountsAndTheFirstItemCost(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		c := r.Dial(nil)
		q := zkrecipes.NewQueue(c, "/q", nil)
		for range 3 { // of segments
			_, err := q.PutAll(t.Context(), make([][]byte, 100)...)
			require.NoError(t, err)
		}
		_, err := q.Take(t.Context())
		require.NoError(t, err)
		counts := r.requests(func() {
			for _, count := range []*zkrecipes.Queue{q, q.DeadLetters()} {
				_, err := count.Len(t.Context())
				require.NoError(t, err)
			}
		})
		first := r.requests(func() {
			for _, err := range q.Items(t.Context()) {
				require.NoError(t, err)
				break
			}
		})
		require.LessOrEqual(t, first, 4)
		require.Equal(t, counts+first, r.requests(func() {
			end := r.poll(t, q, time.Hour)
			synctest.Wait()
			require.Len(t, r.figures().Queues, 1)
			require.NoError(t, end())
		}))
	})
}
