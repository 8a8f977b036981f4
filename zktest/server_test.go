package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestClientReadsWhatItWrote(t *testing.T) {
	for name, opts := range map[string][]Option{"tcp": nil, "pipe": {InMemory()}} {
		t.Run(name, func(t *testing.T) {
			srv := NewServer(t, opts...)
			require.Error(t, srv.SetCounter("/a", 1), "there is no such znode")
			c := connect(t, srv, 10*time.Second)
			_, err := c.Create("/a", []byte("x"), 0, worldACL)
			require.NoError(t, err)
			data, stat, err := c.Get("/a")
			require.NoError(t, err)
			require.Equal(t, "x", string(data))
			require.Equal(t, stat.Czxid, stat.Mzxid)
			stat, err = c.Set("/a", []byte("yy"), 0)
			require.NoError(t, err)
			require.Equal(t, int32(1), stat.Version)
			require.Equal(t, int32(2), stat.DataLength)
			children, _, err := c.Children("/")
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"a", "zookeeper"}, children)
			require.ErrorIs(t, c.Delete("/a", 0), zk.ErrBadVersion)
			require.NoError(t, c.Delete("/a", 1))
			ok, _, err := c.Exists("/a")
			require.NoError(t, err)
			require.False(t, ok)
		})
	}
}

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
