package zktest

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestARestartKeepsDataAndSessions(t *testing.T) {
	srv := NewServer(t)
	addr := srv.Addr()
	c := dialSession(t, srv, 0, nil, 0)
	c.create("/p", 0)
	c.create("/p/n-", jute.FlagSequential)
	seen := c.roundTrip(jute.OpCreate, createRecord("/e", jute.FlagEphemeral)).zxid

	srv.Stop()
	c.waitClosed()
	_, err := net.Dial("tcp", addr)
	require.Error(t, err, "it does not listen")
	require.NoError(t, srv.Restart())

	require.Equal(t, addr, srv.Addr())
	resumed := dialSession(t, srv, c.id, c.pass, seen)
	require.Equal(t, c.id, resumed.id)
	reply := resumed.roundTrip(jute.OpCreate, createRecord("/p/n-", jute.FlagSequential))
	require.Equal(t, "/p/n-0000000001", reply.String())
	require.Equal(t, seen+1, reply.zxid)
	require.Equal(t, []string{"/e"}, srv.Sessions()[0].Ephemerals)
}

func TestSessionsCountTheirTimeoutAnewAfterARestart(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		kept, lost := dialSession(t, srv, 0, nil, 0), dialSession(t, srv, 0, nil, 0)
		require.Equal(t, 10*time.Second, srv.Sessions()[0].Timeout)
		time.Sleep(9 * time.Second)
		srv.Stop()
		time.Sleep(time.Hour)
		require.Len(t, srv.Sessions(), 2, "time stands still")
		require.NoError(t, srv.Restart())
		time.Sleep(9 * time.Second)
		require.Equal(t, kept.id, dialSession(t, srv, kept.id, kept.pass, 0).id)
		time.Sleep(3 * time.Second)
		require.Len(t, srv.Sessions(), 1)
		c := dialRaw(t, srv)
		c.handshake(lost.id, lost.pass, 0)
		require.Zero(t, c.id, "expired")
	}, TickTime(time.Second))
}

func TestStopReturnsWhenNothingIsServedAnyMore(t *testing.T) {
	srv := NewServer(t)
	var clients sync.WaitGroup
	for range 8 {
		c := dialSession(t, srv, 0, nil, 0)
		clients.Go(func() {
			for {
				if _, err := c.nc.Write(frame(1, jute.OpCreate, createRecord("/n-", jute.FlagSequential))); err != nil {
					return
				}
				time.Sleep(100 * time.Microsecond) // the more znodes, the longer takes the test
			}
		})
	}
	for len(srv.Children("/")) < 100 {
		time.Sleep(time.Millisecond)
	}
	srv.Stop()
	before := srv.Tree()
	clients.Wait()
	require.Equal(t, before, srv.Tree())
	require.Zero(t, len(srv.conns))
}

func TestContainersAreReapedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory())
		c := dialSession(t, srv, 0, nil, 0)
		require.Zero(t, c.roundTrip(jute.OpCreateContainer, createRecord("/box", jute.FlagContainer)).err)
		c.create("/box/n", 0)
		require.Zero(t, c.roundTrip(jute.OpDelete, versionRecord("/box/n", -1)).err)
		srv.Stop()
		time.Sleep(time.Hour)
		require.Contains(t, srv.Children("/"), "box")
		require.NoError(t, srv.Restart())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotContains(t, srv.Children("/"), "box")
	})
}

func TestStopAndStartOutOfOrder(t *testing.T) {
	srv := NewServer(t, InMemory())
	require.ErrorIs(t, srv.Restart(), errRunning)
	srv.Stop()
	srv.Stop()
	_, err := srv.Dial("", "", time.Second)
	require.ErrorIs(t, err, errStopped)
	require.NoError(t, srv.Restart())
	dialSession(t, srv, 0, nil, 0)
	srv.Stop()
	srv.Close()
	require.ErrorIs(t, srv.Restart(), errClosed)
}

func TestStartFailsIfThePortIsTaken(t *testing.T) {
	srv := NewServer(t)
	srv.Stop()
	l, err := net.Listen("tcp", srv.Addr())
	require.NoError(t, err)
	require.Error(t, srv.Restart())
	require.NoError(t, l.Close())
	require.NoError(t, srv.Restart(), "it can be tried again")
}
