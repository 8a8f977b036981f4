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

func TestMultiIsAllOrNothing(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	res, err := c.Multi(
		&zk.CreateRequest{Path: "/a", Acl: worldACL},
		&zk.CreateRequest{Path: "/a/b-", Acl: worldACL, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/a", Data: []byte("x"), Version: 0},
		&zk.CheckVersionRequest{Path: "/a", Version: 1},
	)
	require.NoError(t, err)
	require.Equal(t, "/a/b-0000000000", res[1].String)
	require.Equal(t, int32(1), res[2].Stat.NumChildren)

	_, err = c.Multi(
		&zk.CreateRequest{Path: "/b", Acl: worldACL},
		&zk.DeleteRequest{Path: "/a", Version: -1},
		&zk.CreateRequest{Path: "/c", Acl: worldACL},
	)
	require.ErrorIs(t, err, zk.ErrNotEmpty)
	ok, _, err := c.Exists("/b")
	require.NoError(t, err)
	require.False(t, ok)
	got := srv.Counts()
	require.Equal(t, 1, got.Requests["multi(create,create,setData,check)"])
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
