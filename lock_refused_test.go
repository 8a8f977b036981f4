package zkrecipes

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Requests that the server refuses.

func TestB36EachSideReturnsNoAuthAtOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		admin := harness.Raw(t)
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		line := func(t *testing.T, perms int32) string {
			path := harness.NewPath(t)
			harness.MakeParents(t, admin, zkconn.Parent(path))
			acl := append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...)
			_, err := admin.Create(path, nil, 0, acl)
			require.NoError(t, err)
			return path
		}
		t.Run("create", func(t *testing.T) {
			path := line(t, zk.PermAll&^zk.PermCreate)
			_, err := r.ours(r.c, path).Lock(r.ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.ErrorContains(t, err, "lock "+path)
		})
		t.Run("create of the line", func(t *testing.T) {
			_, err := r.ours(r.c, line(t, zk.PermRead)+"/below").Lock(r.ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
		})
		t.Run("list", func(t *testing.T) {
			m := r.ours(r.c, line(t, zk.PermAll&^zk.PermRead))
			_, err := m.Lock(r.ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = m.TryLock(r.ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
		})
		t.Run("setData is not needed", func(t *testing.T) {
			path := line(t, zk.PermAll&^zk.PermWrite)
			l := held(t, r.ours(r.c, path).Lock)
			a := later(t, r.theirs(dial(t, nil), path).Lock)
			harness.Eventually(t, "two in line", func() bool { return len(harness.Children(t, r.raw, path)) == 2 })
			require.True(t, a.Waiting())
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, newToken(stat.Czxid, 0), l.Token())
			require.NoError(t, l.Release())
			require.NoError(t, a.Get().Release())
			data, _, err := r.raw.Get(path)
			require.NoError(t, err)
			require.Empty(t, data)
		})
		t.Run("delete", func(t *testing.T) {
			path, c := line(t, zk.PermAll&^zk.PermDelete), dial(t, nil)
			l := held(t, r.ours(c, path).Lock)
			require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
			require.ErrorIs(t, l.Err(), ErrReleased)
			require.NotEmpty(t, harness.Children(t, r.raw, path))
			require.NoError(t, c.Close()) // the server deletes the place with the session
			require.Empty(t, harness.Children(t, r.raw, path))
		})
	})
}
