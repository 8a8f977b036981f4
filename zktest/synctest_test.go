package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestTenSecondSessionExpiresInMilliseconds(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory())
		expiring, watching := dialSession(t, srv, 0, nil, 0), connect(t, srv, 10*time.Second)
		require.Zero(t, expiring.roundTrip(jute.OpCreate, createRecord("/e", jute.FlagEphemeral)).err)
		_, _, deleted, err := watching.GetW("/e")
		require.NoError(t, err)
		start := time.Now()
		expiring.nc.Close()
		require.Equal(t, zk.EventNodeDeleted, (<-deleted).Type)
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.1)
	})
	t.Logf("took %v of real time", time.Since(began))
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestIdleHourTakesMilliseconds(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), TickTime(2*time.Second))
		c := connect(t, srv, 10*time.Second)
		create(t, c, "/e", zk.FlagEphemeral)
		time.Sleep(time.Hour)
		require.Len(t, srv.Sessions(), 1)
		require.True(t, srv.Sessions()[0].Connected)
		require.Greater(t, srv.Counts().Requests["ping"], 1000)
		require.Equal(t, 1, srv.Counts().Connections)
	})
	t.Logf("took %v of real time", time.Since(began))
	require.Less(t, time.Since(began), 5*time.Second)
}
