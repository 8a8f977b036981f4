package line_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Requests that the server refuses.

func TestB36EachSideReturnsNoAuthAtOnce(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
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
			_, err := r.Ours(r.C, path).Lock(r.Ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.ErrorContains(t, err, "lock "+path)
		})
		t.Run("create of the line", func(t *testing.T) {
			_, err := r.Ours(r.C, line(t, zk.PermRead)+"/below").Lock(r.Ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
		})
		t.Run("list", func(t *testing.T) {
			m := r.Ours(r.C, line(t, zk.PermAll&^zk.PermRead))
			_, err := m.Lock(r.Ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = m.TryLock(r.Ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
		})
		t.Run("setData is not needed", func(t *testing.T) {
			path := line(t, zk.PermAll&^zk.PermWrite)
			l := recipetest.Held(t, r.Ours(r.C, path).Lock)
			a := recipetest.Later(t, r.Theirs(recipetest.Dial(t, nil), path).Lock)
			harness.Eventually(t, "two in line", func() bool { return len(harness.Children(t, r.Raw, path)) == 2 })
			require.True(t, a.Waiting())
			_, stat, err := r.Raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
			require.NoError(t, l.Release())
			require.NoError(t, a.Get().Release())
			data, _, err := r.Raw.Get(path)
			require.NoError(t, err)
			require.Empty(t, data)
		})
		t.Run("delete", func(t *testing.T) {
			path, c := line(t, zk.PermAll&^zk.PermDelete), recipetest.Dial(t, nil)
			l := recipetest.Held(t, r.Ours(c, path).Lock)
			require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
			require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
			require.NotEmpty(t, harness.Children(t, r.Raw, path))
			require.NoError(t, c.Close()) // the server deletes the place with the session
			require.Empty(t, harness.Children(t, r.Raw, path))
		})
	})
}
