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
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/p", 0)).err)
	// AaAa and BBBB have the same hash, so they keep the order of their creation.
	for _, name := range []string{"b", "lock-0000000000", "a", "BBBB", "AaAa"} {
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/p/"+name, 0)).err)
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
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord(fmt.Sprintf("/n%d", i), 0)).err)
	}
	before := c.list("/")
	require.Zero(t, c.roundTrip(jute.OpSetData, dataRecord("/", "x", -1)).err)
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/n1/below", 0)).err)
	require.Equal(t, before, c.list("/"))
}
