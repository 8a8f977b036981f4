package fromcurator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCodeOfTheDocumentWorks(t *testing.T) {
	client := codetest.Dial(t, zktest.NewServer(t))
	ctx := t.Context()
	calls := 0
	work := func(context.Context) error { calls++; return nil }

	require.NoError(t, mutex(ctx, client, func(ctx context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		return work(ctx)
	}))
	require.NoError(t, readWriteLock(ctx, client, work, work))
	require.NoError(t, semaphore(ctx, client, func(ctx context.Context, slots []int) error {
		require.Equal(t, []int{0, 1}, slots)
		return work(ctx)
	}))
	require.NoError(t, reentry(ctx, client, work))
	require.NoError(t, multiLock(ctx, client, work))
	require.NoError(t, leader(ctx, client, work))
	require.NoError(t, guarded(ctx, client, work))
	codetest.Together(t, 5, func() error {
		return barriers(ctx, client, func(context.Context) error { return nil })
	})
	ctx, cancel := context.WithCancel(ctx)
	require.NoError(t, queue(ctx, client, func(context.Context, []byte) error {
		cancel()
		return nil
	}))
	require.Equal(t, 8, calls)
}

func TestOnlyTheLimitOfTheWaitIsReportedAsBusy(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	lease, err := orders.Lock(t.Context())
	require.NoError(t, err)
	_, err = lockWithin(t.Context(), time.Millisecond, orders.Lock)
	require.ErrorIs(t, err, errBusy)

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err = mutex(ctx, client, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, errBusy, "the caller's own deadline")

	require.NoError(t, lease.Release())
	lease, err = lockWithin(t.Context(), time.Hour, orders.Lock)
	require.NoError(t, err)
	require.NoError(t, lease.Context(t.Context()).Err(), "the work is not bound to the wait")
	require.NoError(t, lease.Release())
}

func TestALossDuringTheWorkIsReported(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	err := mutex(t.Context(), client, func(ctx context.Context, _ zkrecipes.Token) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}

func TestTwoZnodesChangeTogether(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	lock := zkrecipes.NewRWLock(client, "/config/lock")
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx, zkrecipes.OpCreate("/config/routes", nil, 0, nil))
		return err
	}))
	require.ErrorIs(t, twoZnodes(t.Context(), client, []byte("r"), []byte("b")), zk.ErrNoNode)
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context, lease *zkrecipes.Lease) error {
		routes, _, err := lease.Get(ctx, "/config/routes")
		require.NoError(t, err)
		require.Empty(t, routes, "neither was written")
		_, err = lease.Commit(ctx, zkrecipes.OpCreate("/config/backends", nil, 0, nil))
		return err
	}))
	require.NoError(t, twoZnodes(t.Context(), client, []byte("r"), []byte("b")))
	require.NoError(t, lock.RDo(t.Context(), func(ctx context.Context, lease *zkrecipes.Lease) error {
		for path, want := range map[string]string{"/config/routes": "r", "/config/backends": "b"} {
			data, _, err := lease.Get(ctx, path)
			require.NoError(t, err)
			require.Equal(t, want, string(data))
		}
		return nil
	}))
}

func TestWorkEndsWithTheConnection(t *testing.T) {
	srv := zktest.NewServer(t)
	err := suspended(t.Context(), []string{srv.Addr()}, func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		srv.Disconnect(srv.Sessions()[0].ID)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, errSuspended)
	require.NotErrorIs(t, err, zkrecipes.ErrLost, "the lock was still held")
}

func TestWorkMayBeginAgainAfterAReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newConnection()
		in := func() error {
			ctx, cancel := conn.context(t.Context())
			defer cancel()
			synctest.Wait()
			return ctx.Err()
		}
		require.NoError(t, in(), "before the first event")
		conn.changed(zkrecipes.TraceSession{State: zkrecipes.SessionConnected})
		require.NoError(t, in())
		conn.changed(zkrecipes.TraceSession{State: zkrecipes.SessionDisconnected})
		require.Error(t, in())
		conn.changed(zkrecipes.TraceSession{State: zkrecipes.SessionExpired})
		require.Error(t, in())
		conn.changed(zkrecipes.TraceSession{State: zkrecipes.SessionConnected})
		require.NoError(t, in())
	})
}

func TestEachChangeOfAValueIsOneOfTheOneBefore(t *testing.T) {
	client := codetest.Dial(t, zktest.NewServer(t))
	_, err := client.Commit(t.Context(), zkrecipes.OpCreate("/value", nil, 0, nil))
	require.NoError(t, err)
	codetest.Together(t, 5, func() error {
		return setValue(t.Context(), client, "/value", func(old []byte) []byte { return append(old, 'x') })
	})
	data, _, err := client.Get(t.Context(), "/value")
	require.NoError(t, err)
	require.Equal(t, "xxxxx", string(data))
}
