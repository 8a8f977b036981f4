package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestSessionExpiresAtTheTickAfterItsTimeout(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		time.Sleep(500 * time.Millisecond)
		c := dialSession(t, srv, 0, make([]byte, 16), 0) // timeout at 10.5 s, so expiry at the tick at 12 s
		require.Equal(t, 10*time.Second, c.timeout)
		c.create("/e", jute.FlagEphemeral)
		c.nc.Close()
		time.Sleep(11499 * time.Millisecond)
		synctest.Wait()
		require.Len(t, srv.Sessions(), 1)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, srv.Sessions())
		require.NotContains(t, srv.Tree(), "/e")
	}, TickTime(2*time.Second))
}

func TestAnyRequestPostponesExpiry(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		require.NoError(t, c.nc.SetDeadline(time.Time{}))
		for range 10 {
			time.Sleep(9 * time.Second)
			require.True(t, c.exists("/"))
		}
		time.Sleep(12 * time.Second)
		c.waitClosed() // the server closes the connection of an expired session
	}, TickTime(time.Second))
}

func TestExpireWithEventsSendsTheEventsBeforeItClosesTheConnection(t *testing.T) {
	srv := NewServer(t)
	require.False(t, srv.ExpireWithEvents(42))
	for range 100 {
		c := dialSession(t, srv, 0, nil, 0)
		c.create("/e", jute.FlagEphemeral)
		require.Zero(t, c.roundTrip(jute.OpExists, watchRecord("/e")).err)
		require.True(t, srv.ExpireWithEvents(c.id))
		c.requireEvents(watchEvent{jute.EventDeleted, "/e"})
		c.waitClosed()
		require.Empty(t, srv.Sessions())
		require.Empty(t, srv.Children("/e"))
	}
}

func TestACloseThatIsLostWithItsConnectionLeavesTheSessionAsItWas(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		c.write(append(frame(1, jute.OpCreate, createRecord("/a", 0)), frame(2, jute.OpClose, nil)...)) // one batch
		c.waitClosed()
		resumed := dialSession(t, srv, c.id, c.pass, 0)
		require.Equal(t, c.id, resumed.id)
		require.True(t, resumed.exists("/a"))
		resumed.create("/b", 0)
		require.Zero(t, resumed.roundTrip(jute.OpClose, nil).err)
		require.Empty(t, srv.Sessions())
	}, WithPlan(NewPlan(Fault{Do: Drop, After: true, Op: "create"})))
}

func TestExpiryClosesTheConnectionOfAClientThatReadsNothing(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		c.write(frame(1, jute.OpExists, watchRecord("/")))
		synctest.Wait() // the server writes the reply, and a pipe holds nothing
		require.True(t, srv.ExpireWithEvents(c.id))
		time.Sleep(flushTimeout)
		synctest.Wait()
		srv.mu.Lock()
		defer srv.mu.Unlock()
		require.Empty(t, srv.conns)
	})
}

func TestADelayedReplyIsSentThoughTheSessionExpiresMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		c.write(frame(1, jute.OpExists, watchRecord("/")))
		synctest.Wait()
		require.True(t, srv.ExpireWithEvents(c.id))
		require.Equal(t, int32(1), c.read().xid)
		c.waitClosed()
	}, WithPlan(NewPlan(Fault{Do: Delay, After: true, Op: "exists", For: 2 * flushTimeout})))
}
