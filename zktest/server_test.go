package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestOnChangeReportsEachChangeWithItsData(t *testing.T) {
	var got []Change
	srv := NewServer(t, OnChange(func(c Change) { got = append(got, c) }))
	c := connect(t, srv, 10*time.Second)
	_, err := c.Create("/a", []byte("new"), 0, worldACL)
	require.NoError(t, err)
	_, err = c.SetACL("/a", worldACL, -1)
	require.NoError(t, err)
	_, err = c.Multi(
		&zk.SetDataRequest{Path: "/a", Data: []byte("newer"), Version: 0},
		&zk.DeleteRequest{Path: "/a", Version: 1})
	require.NoError(t, err)

	require.Len(t, got, 4)
	require.Greater(t, got[2].Zxid, got[1].Zxid)
	require.Equal(t, got[2].Zxid, got[3].Zxid, "one transaction")
	for i := range got {
		got[i].Zxid = 0
	}
	require.Equal(t, []Change{
		{Path: "/a", Created: true, Data: []byte("new")},
		{Path: "/a"},
		{Path: "/a", Data: []byte("newer")},
		{Path: "/a", Deleted: true},
	}, got)
}

func TestSetCounterNeedsTheZnode(t *testing.T) {
	require.Error(t, NewServer(t, InMemory()).SetCounter("/a", 1))
}
