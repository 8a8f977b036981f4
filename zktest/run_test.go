package zktest_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestSessionsCountTheirTimeoutAnewAfterARestart(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		kept, lost := open(t, srv), open(t, srv)
		require.Equal(t, 10*time.Second, srv.Sessions()[0].Timeout)
		time.Sleep(9 * time.Second)
		srv.Stop()
		time.Sleep(time.Hour)
		require.Len(t, srv.Sessions(), 2, "time stands still")
		require.NoError(t, srv.Restart())
		time.Sleep(9 * time.Second)
		require.Equal(t, kept.ID, resume(t, srv, kept, 0).ID)
		time.Sleep(3 * time.Second)
		require.Len(t, srv.Sessions(), 1)
		require.Zero(t, resume(t, srv, lost, 0).ID, "expired")
	}, zktest.TickTime(time.Second))
}

func TestStopReturnsWhenNothingIsServedAnyMore(t *testing.T) {
	srv := zktest.NewServer(t)
	var clients sync.WaitGroup
	for range 8 {
		c := open(t, srv)
		clients.Go(func() {
			for !c.Call(conformance.Sequential("/n-")).Closed {
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
	require.Zero(t, srv.Leftovers().Connections)
}

func TestContainersAreReapedAfterARestart(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		open(t, srv).Ok(conformance.Container("/box"), conformance.Plain("/box/n"), conformance.Delete("/box/n", -1))
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
	srv := zktest.NewServer(t, zktest.InMemory())
	require.ErrorIs(t, srv.Restart(), zktest.ErrRunning)
	srv.Stop()
	srv.Stop()
	_, err := srv.Dial("", "", time.Second)
	require.ErrorIs(t, err, zktest.ErrStopped)
	require.NoError(t, srv.Restart())
	open(t, srv)
	srv.Stop()
	srv.Close()
	require.ErrorIs(t, srv.Restart(), zktest.ErrClosed)
}

func TestOfTwoRestartsAtOnceOneFails(t *testing.T) {
	srv := zktest.NewServer(t, zktest.InMemory())
	for range 2000 {
		srv.Stop()
		other := make(chan error)
		go func() { other <- srv.Restart() }()
		errs := []error{srv.Restart(), <-other}
		require.ErrorIs(t, errors.Join(errs...), zktest.ErrRunning)
		require.Contains(t, errs, error(nil))
	}
}

// Its time is not theirs.
func TestAServerOutsideABubbleRefusesClientsInside(t *testing.T) {
	srv := zktest.NewServer(t, zktest.InMemory())
	synctest.Test(t, func(t *testing.T) {
		c, err := srv.Dial("", "", time.Second)
		if err == nil {
			c.Close()
		}
		require.ErrorContains(t, err, "bubble")
	})
}

// A restarted server listens on the same address, and a stopped one does not.
func TestStartFailsIfThePortIsTaken(t *testing.T) {
	srv := zktest.NewServer(t)
	addr := srv.Addr()
	srv.Stop()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	require.Error(t, srv.Restart())
	require.NoError(t, l.Close())
	require.NoError(t, srv.Restart(), "it can be tried again")
	require.Equal(t, addr, srv.Addr())
	open(t, srv)
}
