package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestASessionExpiresAtTheTickAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), TickTime(2*time.Second))
		time.Sleep(500 * time.Millisecond)
		c := hello(t, srv, 0, make([]byte, 16), 0) // 10 s: until 10.5, so at 12
		require.Equal(t, 10*time.Second, c.timeout)
		require.Zero(t, c.ask(jute.OpCreate, createRecord("/e", jute.FlagEphemeral)).err)
		c.nc.Close()
		time.Sleep(11499*time.Millisecond - 0)
		synctest.Wait()
		require.Len(t, srv.Sessions(), 1)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, srv.Sessions())
		require.NotContains(t, srv.Tree(), "/e")
	})
}

func TestAnyRequestPutsExpiryOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), TickTime(time.Second))
		c := hello(t, srv, 0, nil, 0)
		require.NoError(t, c.nc.SetDeadline(time.Time{}))
		for range 10 {
			time.Sleep(9 * time.Second)
			require.Zero(t, c.ask(jute.OpExists, append(pathRecord("/"), 0)).err)
		}
		time.Sleep(12 * time.Second)
		c.closed() // the server closes the connection of an expired session
	})
}

func TestTimeoutsAreBounded(t *testing.T) {
	srv := NewServer(t, SessionTimeouts(3*time.Second, 5*time.Second))
	for asked, got := range map[int32]time.Duration{
		1: 3 * time.Second, 4000: 4 * time.Second, 60000: 5 * time.Second, -1: 3 * time.Second,
	} {
		c := dialRaw(t, srv)
		c.connect(0, nil, 0, asked, false)
		require.Equal(t, got, c.timeout)
	}
}

func TestASessionMovesToTheConnectionThatShowsItsPassword(t *testing.T) {
	srv := NewServer(t)
	first := hello(t, srv, 0, nil, 0)
	second := hello(t, srv, first.id, first.pass, 0)
	require.Equal(t, first.id, second.id)
	require.Equal(t, first.pass, second.pass)
	first.closed()
	require.Len(t, srv.Sessions(), 1)
	require.Zero(t, second.ask(jute.OpExists, append(pathRecord("/"), 0)).err)
}

func TestAWrongPasswordOrAnUnknownSessionIsExpired(t *testing.T) {
	srv := NewServer(t)
	c := hello(t, srv, 0, nil, 0)
	for _, id := range []int64{c.id, 42} {
		bad := hello(t, srv, id, make([]byte, 16), 0)
		require.Zero(t, bad.id)
		require.Zero(t, bad.timeout)
		require.Equal(t, make([]byte, 16), bad.pass)
		bad.closed()
	}
	require.Len(t, srv.Sessions(), 1)
}

func TestAClientThatHasSeenMoreIsRefused(t *testing.T) {
	srv := NewServer(t)
	c := hello(t, srv, 0, nil, 0)
	refused := hello(t, srv, c.id, c.pass, 1000)
	require.Zero(t, refused.id)
	require.Nil(t, refused.pass)
	require.Zero(t, c.ask(jute.OpExists, append(pathRecord("/"), 0)).err) // undisturbed
}

func TestEphemeralsGoInOneTransaction(t *testing.T) {
	srv := NewServer(t)
	for name, end := range map[string]func(*raw){
		"close":  func(c *raw) { require.Zero(t, c.ask(jute.OpClose, nil).err); c.closed() },
		"expiry": func(c *raw) { require.True(t, srv.Expire(c.id)); c.closed() },
	} {
		t.Run(name, func(t *testing.T) {
			c, other := hello(t, srv, 0, nil, 0), hello(t, srv, 0, nil, 0)
			for _, path := range []string{"/e1", "/e2", "/e3"} {
				require.Zero(t, c.ask(jute.OpCreate, createRecord(path, jute.FlagEphemeral)).err)
			}
			before := other.ask(jute.OpExists, watchRecord("/e2")).zxid
			end(c)
			event, path := other.event()
			require.Equal(t, jute.EventDeleted, event)
			require.Equal(t, "/e2", path)
			a := other.ask(jute.OpGetChildren2, append(pathRecord("/"), 0))
			require.Equal(t, before+1, a.zxid)
			require.Equal(t, []string{"zookeeper"}, a.Strings())
			require.Equal(t, before+1, a.Stat().Pzxid)
		})
	}
}
