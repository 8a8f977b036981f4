package zktest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

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

func TestSetCounterNeedsTheZnode(t *testing.T) {
	require.Error(t, NewServer(t, InMemory()).SetCounter("/a", 1))
}
