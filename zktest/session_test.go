package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestSessionExpiresAtTheTickAfterItsTimeout(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		time.Sleep(500 * time.Millisecond)
		c := open(t, srv) // timeout at 10.5 s, so expiry at the tick at 12 s
		require.Equal(t, 10*time.Second, c.Timeout)
		c.Ok(conformance.Ephemeral("/e"))
		c.Drop()
		time.Sleep(11499 * time.Millisecond)
		synctest.Wait()
		require.Len(t, srv.Sessions(), 1)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, srv.Sessions())
		require.NotContains(t, srv.Tree(), "/e")
	}, zktest.TickTime(2*time.Second))
}

func TestAnyRequestPostponesExpiry(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		for range 10 {
			time.Sleep(9 * time.Second)
			c.Ok(conformance.Exists("/", false))
		}
		time.Sleep(12 * time.Second)
		c.Closed() // the server closes the connection of an expired session
	}, zktest.TickTime(time.Second))
}

func TestExpireWithEventsSendsTheEventsBeforeItClosesTheConnection(t *testing.T) {
	srv := zktest.NewServer(t)
	require.False(t, srv.ExpireWithEvents(42))
	for range 100 {
		c := open(t, srv)
		c.Ok(conformance.Ephemeral("/e"), conformance.Exists("/e", true))
		require.True(t, srv.ExpireWithEvents(c.ID))
		require.Equal(t, []conformance.Event{{Type: jute.EventDeleted, Path: "/e"}}, c.Receive().Events)
		c.Closed()
		require.Empty(t, srv.Sessions())
		require.Empty(t, srv.Children("/e"))
	}
}

func TestACloseThatIsLostWithItsConnectionLeavesTheSessionAsItWas(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		c.SendTogether(conformance.Plain("/a"), conformance.Close())
		c.Closed()
		resumed := resume(t, srv, c, 0)
		require.Equal(t, c.ID, resumed.ID)
		resumed.Ok(conformance.Exists("/a", false), conformance.Plain("/b"), conformance.Close())
		require.Empty(t, srv.Sessions())
	}, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Drop, After: true, Op: "create"})))
}

func TestExpiryClosesTheConnectionOfAClientThatReadsNothing(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		c.Send(conformance.Exists("/", true))
		synctest.Wait() // the server writes the reply, and a pipe holds nothing
		require.True(t, srv.ExpireWithEvents(c.ID))
		time.Sleep(zktest.FlushTimeout)
		synctest.Wait()
		require.Zero(t, srv.Leftovers().Connections)
	})
}

func TestADelayedReplyIsSentThoughTheSessionExpiresMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		xid := c.Send(conformance.Exists("/", true))
		synctest.Wait()
		require.True(t, srv.ExpireWithEvents(c.ID))
		require.Equal(t, xid, c.Receive().Xid)
		c.Closed()
	}, zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Delay, After: true, Op: "exists", For: 2 * zktest.FlushTimeout})))
}
