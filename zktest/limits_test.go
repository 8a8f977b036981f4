package zktest

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestOversizedFrameClosesTheConnection(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	overhead := len(frame(1, jute.OpSetData, dataRecord("/", "", -1))) - 4
	fits := bytes.Repeat([]byte("x"), jute.MaxFrame-overhead)
	require.Zero(t, c.roundTrip(jute.OpSetData, dataRecord("/", string(fits), -1)).err)
	go c.nc.Write(frame(1, jute.OpSetData, dataRecord("/", string(fits)+"x", -1)))
	_, err := io.Copy(io.Discard, c.nc)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
}

func TestUnknownOperationIsUnimplementedAndCloses(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	a := c.roundTrip(12345, nil)
	require.Equal(t, jute.ErrUnimplemented, a.err)
	require.Equal(t, int64(-1), a.zxid)
	c.waitClosed()
}

func TestOnlyUsedContainersAreReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), ContainerCheckInterval(time.Second))
		c := connect(t, srv, 10*time.Second)
		for _, path := range []string{"/used", "/unused", "/full"} {
			_, err := c.CreateContainer(path, nil, zk.FlagContainer, worldACL)
			require.NoError(t, err)
		}
		create(t, c, "/full/a", 0)
		create(t, c, "/used/a", 0)
		require.NoError(t, c.Delete("/used/a", -1))
		time.Sleep(1100 * time.Millisecond)
		children, _, err := c.Children("/")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"unused", "full", "zookeeper"}, children)
		time.Sleep(time.Hour)
		require.Contains(t, srv.Tree(), "/unused")
	})
}

func TestTTLZnodesAreReaped(t *testing.T) {
	record := func(flags int32, ttl int64) []byte { return jute.AppendInt64(createRecord("/a", flags), ttl) }
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), ExtendedTypes(), ContainerCheckInterval(time.Second))
		c := dialSession(t, srv, 0, nil, 0)
		require.Equal(t, jute.ErrBadArguments, c.roundTrip(jute.OpCreateTTL, record(jute.FlagTTL, 0)).err)
		require.Zero(t, c.roundTrip(jute.OpCreateTTL, record(jute.FlagTTL, 5000)).err)
		time.Sleep(4 * time.Second)
		require.Zero(t, c.roundTrip(jute.OpExists, watchRecord("/a")).err)
		event, _ := c.event()
		require.Equal(t, jute.EventDeleted, event)
	})
	c := dialSession(t, NewServer(t), 0, nil, 0)
	require.Equal(t, jute.ErrUnimplemented, c.roundTrip(jute.OpCreateTTL, record(jute.FlagTTL, 5000)).err)
}

func TestExistsNeedsReadSince39(t *testing.T) {
	secret := jute.ACL{Perms: jute.PermAll &^ jute.PermRead, Scheme: "world", ID: "anyone"}
	for want, opts := range map[int32][]Option{0: {Emulate(ZooKeeper38)}, jute.ErrNoAuth: nil} {
		c := dialSession(t, NewServer(t, opts...), 0, nil, 0)
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/a", 0, secret)).err)
		require.Equal(t, want, c.roundTrip(jute.OpExists, append(pathRecord("/a"), 0)).err)
	}
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
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(t, InMemory(), WithPlan(NewPlan(Fault{Do: Delay, Op: "connect", For: 2 * handshakeTimeout})))
		c := dialSession(t, srv, 0, nil, 0)
		require.Zero(t, c.roundTrip(jute.OpExists, watchRecord("/")).err)
	})
}
