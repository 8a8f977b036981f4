package fence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var (
	_ fence.Holder = (*zkrecipes.Lease)(nil)
	_ fence.Holder = (*zkrecipes.Leases)(nil)
	_ fence.Holder = (*zkrecipes.Term)(nil)
	_ fence.Holder = (*zkrecipes.SlotLease)(nil)
	_ fence.Holder = (*zkrecipes.Item)(nil)

	_ fence.Guard = (*fence.SQL)(nil)
	_ fence.Guard = (*fence.Memory)(nil)
)

func TestNilsAndZeroValuesAreRefused(t *testing.T) {
	require.PanicsWithValue(t, "fence: nil Holder", func() { fence.NewContext(t.Context(), nil) })
	for _, s := range []*fence.SQL{nil, {}} {
		err := s.Do(t.Context(), fence.Tokens{"/a": 1}, nil)
		require.EqualError(t, err, "fence: SQL was not made by NewSQL")
		require.Equal(t, err, s.Migrate(t.Context()))
		_, _, admitted := s.Admit(t.Context(), fence.Tokens{"/a": 1})
		require.Equal(t, err, admitted)
	}
}

func dial(t *testing.T) *zkrecipes.Client {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Prefix: "/app"})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestTheNamesOfFencesHaveThePrefixAndWhatTheTokenGrowsWith(t *testing.T) {
	ctx, client := t.Context(), dial(t)

	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"/app/locks/orders": int64(lease.Token())}, lease.Fences())
	require.NoError(t, lease.Release())
	require.Equal(t, map[string]int64{"/app/locks/orders": int64(lease.Token())}, lease.Fences(), "it goes on to present its old token")

	term, err := zkrecipes.NewElection(client, "/leader").Campaign(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"/app/leader": int64(term.Token())}, term.Fences())

	slots, err := zkrecipes.NewSemaphore(client, "/workers", 3).AcquireN(ctx, 2)
	require.NoError(t, err)
	token := int64(slots.Token())
	require.Equal(t, map[string]int64{"/app/workers/slots/0": token, "/app/workers/slots/1": token}, slots.Fences())

	queue := zkrecipes.NewQueue(client, "/jobs", nil)
	id, err := queue.Put(ctx, []byte("a"))
	require.NoError(t, err)
	item, err := queue.Take(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"/app/jobs/items/" + string(id): int64(item.Token())}, item.Fences())

	both, err := zkrecipes.LockAll(ctx, zkrecipes.NewMutex(client, "/locks/b"), zkrecipes.NewMutex(client, "/locks/a"))
	require.NoError(t, err)
	require.Equal(t, map[string]int64{
		"/app/locks/b": int64(both.All()[0].Token()), "/app/locks/a": int64(both.All()[1].Token()),
	}, both.Fences())
}

func TestAReaderHasNoFence(t *testing.T) {
	ctx, config := t.Context(), zkrecipes.NewRWLock(dial(t), "/config")
	reader, err := config.RLock(ctx)
	require.NoError(t, err)
	require.Empty(t, reader.Fences())
	_, err = fence.Format(reader)
	require.ErrorIs(t, err, fence.ErrNoToken)
	require.NoError(t, reader.Release())

	writer, err := config.Lock(ctx)
	require.NoError(t, err)
	require.Len(t, writer.Fences(), 1)
	require.NoError(t, writer.Downgrade(ctx))
	require.Empty(t, writer.Fences())
}

func TestWhatHoldsNothingHasNoFence(t *testing.T) {
	for _, h := range []fence.Holder{
		(*zkrecipes.Lease)(nil), &zkrecipes.Lease{}, (*zkrecipes.Term)(nil), &zkrecipes.Term{},
		(*zkrecipes.SlotLease)(nil), &zkrecipes.SlotLease{}, (*zkrecipes.Item)(nil), &zkrecipes.Item{},
		(*zkrecipes.Leases)(nil), &zkrecipes.Leases{},
	} {
		require.Empty(t, h.Fences(), "%T", h)
		_, err := fence.Format(h)
		require.ErrorIs(t, err, fence.ErrNoToken, "%T", h)
	}
}

func TestTokensOfHoldersGrow(t *testing.T) {
	ctx, lock := t.Context(), zkrecipes.NewMutex(dial(t), "/locks/orders", zkrecipes.KeepFor(1<<40))
	guard := fence.NewMemory(nil)
	guard.Raise("/app/locks/orders", 1)
	var last *zkrecipes.Lease
	for range 3 { // the same place, kept
		lease, err := lock.Lock(ctx)
		require.NoError(t, err)
		_, done, err := guard.Admit(ctx, lease)
		require.NoError(t, err)
		done()
		if last != nil {
			_, _, err := guard.Admit(ctx, last)
			require.ErrorIs(t, err, fence.ErrFenced)
		}
		require.NoError(t, lease.Release())
		last = lease
	}
}
