package testing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestReplyToACommitIsLost(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(t.Context())
	require.NoError(t, err)
	defer lease.Release()

	srv.Plan().Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "multi"}) // it is applied
	_, err = lease.Commit(t.Context())
	require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	require.Equal(t, map[string]int{"drop after": 1}, srv.Plan().Fired())
}

func TestWorkStopsInTimeIfNoServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Dialer: srv.DialContext})
		require.NoError(t, err)
		defer client.Close()

		orders := zkrecipes.NewMutex(client, "/locks/orders")
		err = orders.Do(t.Context(), func(ctx context.Context, _ *zkrecipes.Lease) error {
			time.Sleep(time.Hour) // takes milliseconds
			require.NoError(t, ctx.Err())

			srv.Stop()
			began := time.Now()
			<-ctx.Done()
			require.LessOrEqual(t, time.Since(began), 10*time.Second) // the session timeout
			srv.Restart()
			return nil
		})
		require.ErrorIs(t, err, zkrecipes.ErrLost)
	})
}

func TestServersRefuseACredential(t *testing.T) {
	srv := zktest.NewServer(t, zktest.WithoutDigest())
	_, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()},
		&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("billing:secret")}}})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
