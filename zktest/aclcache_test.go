package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// user returns an ACL that differs from those of other names.
func user(name string) []zk.ACL { return zk.DigestACL(zk.PermAll, name, "pw") }

// requireACLs asserts how many ACLs became known since before, and how many of a
// client's ACLs are known now.
func requireACLs(t *testing.T, srv *Server, before Counts, became, now int, why string) {
	t.Helper()
	require.Equal(t, became, srv.Counts().Sub(before).NewACLs, "%s: became known", why)
	require.Equal(t, now, srv.ACLs()-1, "%s: known now, without that of /zookeeper/config", why)
}

func TestAnACLIsKnownFromItsFirstZnodeToItsLast(t *testing.T) {
	srv := NewServer(t)
	before := srv.Counts()
	require.Equal(t, 1, before.NewACLs, "of /zookeeper/config")
	c := connect(t, srv, 10*time.Second)
	require.NoError(t, c.AddAuth("digest", []byte("me:pw")))
	createWith := func(path string, acl []zk.ACL) {
		_, err := c.Create(path, nil, 0, acl)
		require.NoError(t, err)
	}
	remove := func(path string) { require.NoError(t, c.Delete(path, -1)) }
	setACL := func(path string, acl []zk.ACL) {
		_, err := c.SetACL(path, acl, -1)
		require.NoError(t, err)
	}
	createWith("/a", user("me"))
	createWith("/b", user("me"))
	requireACLs(t, srv, before, 1, 1, "two znodes with a list")
	remove("/a")
	requireACLs(t, srv, before, 1, 1, "one has it still")
	remove("/b")
	requireACLs(t, srv, before, 1, 0, "none has it")
	createWith("/a", user("me"))
	requireACLs(t, srv, before, 2, 1, "it came again")
	setACL("/a", user("me"))
	requireACLs(t, srv, before, 3, 1, "its only znode got it again")
	createWith("/b", append(user("me"), user("me")...))
	requireACLs(t, srv, before, 3, 1, "duplicates are removed")
	setACL("/a", user("me"))
	requireACLs(t, srv, before, 3, 1, "one of its znodes got it again")
	createWith("/c", zk.AuthACL(zk.PermAll))
	requireACLs(t, srv, before, 3, 1, "the list that auth stands for")
	setACL("/c", append(user("me"), user("you")...))
	createWith("/d", append(user("you"), user("me")...))
	requireACLs(t, srv, before, 5, 3, "the same entries in another order")
	createWith("/e", worldACL)
	setACL("/", worldACL)
	requireACLs(t, srv, before, 6, 4, "the open list, of a client")
	setACL("/", zk.WorldACL(zk.PermRead))
	requireACLs(t, srv, before, 6, 4, "the list of /zookeeper/config")
}

func TestFailedRequestsMakeNoACLKnown(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	require.NoError(t, c.AddAuth("digest", []byte("me:pw")))
	before := srv.Counts()
	_, err := c.Create("/none/a", nil, 0, user("me"))
	require.ErrorIs(t, err, zk.ErrNoNode)
	_, err = c.SetACL("/", user("me"), 7)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	_, err = c.Multi(
		&zk.CreateRequest{Path: "/a", Acl: user("me")},
		&zk.CheckVersionRequest{Path: "/a", Version: 7},
	)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	requireACLs(t, srv, before, 0, 0, "all failed")
	_, err = c.Multi(
		&zk.CreateRequest{Path: "/a", Acl: user("me")},
		&zk.CreateRequest{Path: "/b", Acl: user("you")},
		&zk.DeleteRequest{Path: "/b", Version: -1},
	)
	require.NoError(t, err)
	requireACLs(t, srv, before, 2, 1, "a multi that succeeded")
}

func TestZnodesThatTheServerDeletesGiveTheirACLsBack(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := connect(t, srv, 10*time.Second)
		before := srv.Counts()
		_, err := c.Create("/ephemeral", nil, zk.FlagEphemeral, user("session"))
		require.NoError(t, err)
		_, err = c.CreateContainer("/container", nil, zk.FlagContainer, user("container"))
		require.NoError(t, err)
		_, err = c.CreateTTL("/ttl", nil, zk.FlagTTL, user("ttl"), time.Second)
		require.NoError(t, err)
		requireACLs(t, srv, before, 3, 3, "created")
		require.True(t, srv.Expire(c.SessionID()))
		requireACLs(t, srv, before, 3, 2, "the session expired")
		time.Sleep(2 * time.Minute)
		requireACLs(t, srv, before, 3, 0, "the others were reaped")
	}, ExtendedTypes(), ContainerCheckInterval(time.Minute), NeverUsedInterval(time.Second))
}

func TestARestartKeepsTheCountOfACLs(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	before := srv.Counts()
	acl := jute.ACL{Perms: jute.PermAll, Scheme: "digest", ID: "me:pw"}
	c.create("/a", 0, acl)
	srv.Stop()
	require.NoError(t, srv.Restart())
	requireACLs(t, srv, before, 1, 1, "restarted")
}
