package zktest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestOnChangeReportsEachChangeWithItsData(t *testing.T) {
	var got []zktest.Change
	srv := zktest.NewServer(t, zktest.OnChange(func(c zktest.Change) { got = append(got, c) }))
	open(t, srv).Ok(
		conformance.Create("/a", []byte("new"), conformance.Open, 0),
		conformance.SetACL("/a", conformance.Open, -1),
		conformance.Multi(conformance.SetData("/a", []byte("newer"), 0), conformance.Delete("/a", 1)),
	)
	require.Len(t, got, 4)
	require.Greater(t, got[2].Zxid, got[1].Zxid)
	require.Equal(t, got[2].Zxid, got[3].Zxid, "one transaction")
	for i := range got {
		got[i].Zxid = 0
	}
	require.Equal(t, []zktest.Change{
		{Path: "/a", Created: true, Data: []byte("new")},
		{Path: "/a"},
		{Path: "/a", Data: []byte("newer")},
		{Path: "/a", Deleted: true},
	}, got)
}

func TestSetCounterNeedsTheZnode(t *testing.T) {
	require.Error(t, zktest.NewServer(t, zktest.InMemory()).SetCounter("/a", 1))
}
