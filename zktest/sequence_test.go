package zktest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestSequenceNumbersCountCreates(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	create(t, c, "/q", 0)
	require.Equal(t, "/q/0000000000", create(t, c, "/q/", zk.FlagSequence))
	create(t, c, "/q/plain", 0) // is counted too
	require.NoError(t, c.Delete("/q/plain", -1))
	_, err := c.Create("/q/0000000000", nil, 0, worldACL) // fails, takes no number
	require.ErrorIs(t, err, zk.ErrNodeExists)
	require.Equal(t, "/q/a-0000000002", create(t, c, "/q/a-", zk.FlagSequence))
	require.NoError(t, c.Delete("/q/0000000000", -1))
	require.NoError(t, c.Delete("/q/a-0000000002", -1))
	_, stat, err := c.Get("/q")
	require.NoError(t, err)
	require.Equal(t, int32(6), stat.Cversion) // three creates, three deletes
	require.NoError(t, c.Delete("/q", -1))
	create(t, c, "/q", 0)
	require.Equal(t, "/q/0000000000", create(t, c, "/q/", zk.FlagSequence))
}

func TestSequenceCounterSticksAtMaxInt32(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	require.Error(t, srv.SetCounter("/q", 1))
	create(t, c, "/q", 0)
	require.NoError(t, srv.SetCounter("/q", math.MaxInt32-1))
	require.Equal(t, "/q/a2147483646", create(t, c, "/q/a", zk.FlagSequence))
	require.Equal(t, "/q/b2147483647", create(t, c, "/q/b", zk.FlagSequence))
	require.Equal(t, "/q/c2147483647", create(t, c, "/q/c", zk.FlagSequence))
}

func TestPipelinedCreatesOverflowToNegativeNumbers(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	c.create("/q", 0)
	require.NoError(t, srv.SetCounter("/q", math.MaxInt32))
	var frames []byte
	for range 3 {
		frames = append(frames, frame(1, jute.OpCreate, createRecord("/q/", jute.FlagSequential))...)
	}
	c.write(frames)
	require.Equal(t, "/q/2147483647", c.read().String())
	require.Equal(t, "/q/-2147483648", c.read().String())
	require.Equal(t, "/q/-2147483647", c.read().String())
}

func TestStatCarriesTheZxidsOfItsChanges(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	create(t, c, "/a", 0)
	_, a, err := c.Get("/a")
	require.NoError(t, err)
	require.Equal(t, a.Czxid, a.Mzxid)
	require.Equal(t, a.Czxid, a.Pzxid)
	create(t, c, "/a/b", 0)
	_, a2, err := c.Get("/a")
	require.NoError(t, err)
	require.Equal(t, a.Czxid+1, a2.Pzxid)
	require.Equal(t, a.Mzxid, a2.Mzxid)
	require.Equal(t, int32(1), a2.NumChildren)
	require.Equal(t, int32(1), a2.Cversion)
	_, err = c.Create("/a", nil, 0, worldACL)
	require.ErrorIs(t, err, zk.ErrNodeExists) // takes a zxid nevertheless
	a3, err := c.Set("/a", []byte("x"), -1)
	require.NoError(t, err)
	require.Equal(t, a.Czxid+3, a3.Mzxid)
	require.Equal(t, int32(1), a3.Version)
	_, root, err := c.Get("/")
	require.NoError(t, err)
	require.Equal(t, int32(0), root.Cversion) // one create: /zookeeper was never created by a request
}

// list returns the children of path in the order of the reply.
func (c *rawClient) list(path string) []string {
	reply := c.roundTrip(jute.OpGetChildren, append(pathRecord(path), 0))
	require.Zero(c.t, reply.err)
	return reply.Strings()
}

func TestChildrenAreListedInTheOrderOfARealServer(t *testing.T) {
	c := dialSession(t, NewServer(t), 0, nil, 0)
	c.create("/p", 0)
	// AaAa and BBBB have the same hash, so they keep the order of their creation.
	for _, name := range []string{"b", "lock-0000000000", "a", "BBBB", "AaAa"} {
		c.create("/p/"+name, 0)
	}
	want := c.list("/p")
	require.Less(t, slices.Index(want, "BBBB"), slices.Index(want, "AaAa"))
	require.Less(t, slices.Index(want, "a"), slices.Index(want, "b"), "they are in neighboring buckets")
	for range 20 {
		require.Equal(t, want, c.list("/p"), "the same each time")
	}
}

func TestTheOrderOfChildrenStaysThroughOtherChanges(t *testing.T) {
	c := dialSession(t, NewServer(t), 0, nil, 0)
	for i := range 40 {
		c.create(fmt.Sprintf("/n%d", i), 0)
	}
	before := c.list("/")
	require.Zero(t, c.roundTrip(jute.OpSetData, dataRecord("/", "x", -1)).err)
	c.create("/n1/below", 0)
	require.Equal(t, before, c.list("/"))
}
