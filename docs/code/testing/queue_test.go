package testing

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAnItemComesAgainAfterItsConsumerIsLost(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	jobs := zkrecipes.NewQueue(client, "/jobs", nil)
	id, err := jobs.Put(t.Context(), []byte("invoice 17"))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attempts := map[zkrecipes.ItemID][]int{}
	err = jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		attempts[job.ID] = append(attempts[job.ID], job.Attempt)
		if job.Attempt == 1 {
			srv.Expire(srv.Sessions()[0].ID)
			<-ctx.Done() // the work must stop here
			return context.Cause(ctx)
		}
		cancel() // Serve acks this one, and returns
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, map[zkrecipes.ItemID][]int{id: {1, 2}}, attempts)
	n, err := jobs.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// bill is a handler, as a service has it.
func bill(_ context.Context, job *zkrecipes.Item) error {
	if len(job.Data) == 0 {
		return errors.New("no invoice")
	}
	return nil
}

func TestHandlerWithoutAServer(t *testing.T) {
	require.NoError(t, bill(t.Context(), &zkrecipes.Item{ID: "1", Data: []byte("invoice 17"), Attempt: 1}))
	require.EqualError(t, bill(t.Context(), &zkrecipes.Item{ID: "2", Attempt: 1}), "no invoice")
}
