package zktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestAFrameMayComeInParts(t *testing.T) {
	c := dialSession(t, NewServer(t, InMemory()), 0, nil, 0)
	ping := frame(jute.XidPing, jute.OpPing, nil)
	c.write(append(ping, ping[:7]...))
	require.Equal(t, jute.XidPing, c.read().xid)
	c.write(ping[7:])
	require.Equal(t, jute.XidPing, c.read().xid)
}

func TestAContainerIsReapedAtTheCheckAfterThatOfItsLastChild(t *testing.T) {
	const parents = 20
	var reaped []string
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		for i := range parents {
			for _, path := range []string{"/%02d", "/%02d/child"} {
				path = fmt.Sprintf(path, i)
				require.Zero(t, c.roundTrip(jute.OpCreateContainer, createRecord(path, jute.FlagContainer)).err)
			}
			c.create(fmt.Sprintf("/%02d/child/n", i), 0)
			require.Zero(t, c.roundTrip(jute.OpDelete, versionRecord(fmt.Sprintf("/%02d/child/n", i), -1)).err)
		}
		for checks, left := range []int{parents, 0} {
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, reaped, (checks+1)*parents)
			require.True(t, slices.IsSorted(reaped[checks*parents:]), reaped)
			require.Len(t, srv.Children("/"), left+1) // and /zookeeper
		}
	}, ContainerCheckInterval(time.Second), OnChange(func(c Change) {
		if c.Deleted && !strings.HasSuffix(c.Path, "/n") {
			reaped = append(reaped, c.Path)
		}
	}))
}

func TestTTLZnodesAreReaped(t *testing.T) {
	record := func(ttl int64) []byte { return jute.AppendInt64(createRecord("/a", jute.FlagTTL), ttl) }
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		require.Equal(t, jute.ErrBadArguments, c.roundTrip(jute.OpCreateTTL, record(0)).err)
		require.Zero(t, c.roundTrip(jute.OpCreateTTL, record(5000)).err)
		time.Sleep(4 * time.Second)
		require.Zero(t, c.roundTrip(jute.OpExists, watchRecord("/a")).err)
		event, _ := c.event()
		require.Equal(t, jute.EventDeleted, event)
	}, ExtendedTypes(), ContainerCheckInterval(time.Second))
}

func TestAConnectionWithoutAHandshakeIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory())
		began := time.Now()
		silent, slow, served := dialRaw(t, srv), dialRaw(t, srv), dialSession(t, srv, 0, nil, 0)
		slow.write([]byte{0, 0, 0, 45, 0})
		silent.waitClosed()
		slow.waitClosed()
		require.Equal(t, handshakeTimeout, time.Since(began))
		require.Zero(t, served.roundTrip(jute.OpExists, watchRecord("/")).err, "the others stay")
	})
}

func TestADelayedHandshakeIsNotCutOff(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		require.Zero(t, c.roundTrip(jute.OpExists, watchRecord("/")).err)
	}, WithPlan(NewPlan(Fault{Do: Delay, Op: "connect", For: 2 * handshakeTimeout})))
}

// What ZooKeeper 3.8 and 3.9 answer differently.
func TestVersionsDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		on38, on39 any
		do         func(t *testing.T, c *rawClient) any
	}{
		"malformed writes take no zxid": {int64(2), int64(1), func(t *testing.T, c *rawClient) any {
			reply := c.roundTrip(jute.OpDelete, pathRecord("/a"))
			require.Equal(t, jute.ErrMarshalling, reply.err)
			return reply.zxid
		}},
		"create2 in a multi returns a stat": {jute.OpCreate, jute.OpCreate2, func(t *testing.T, c *rawClient) any {
			b := append(appendHeader(nil, jute.OpCreate2, false, -1), createRecord("/a", 0)...)
			reply := c.roundTrip(jute.OpMulti, appendHeader(b, -1, true, -1))
			require.Zero(t, reply.err)
			return reply.Int32()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.on38, test.do(t, dialSession(t, NewServer(t, Emulate(ZooKeeper38)), 0, nil, 0)))
			require.Equal(t, test.on39, test.do(t, dialSession(t, NewServer(t), 0, nil, 0)))
		})
	}
}
