package zkrecipes

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Operations that the server refuses.

func TestB36NoAuthIsAnErrorAtOnce(t *testing.T) {
	r := newRig(t, nil)
	mine := zk.DigestACL(zk.PermAll, "owner", "x")
	world := func(perms int32) []zk.ACL { return append(zk.WorldACL(perms), mine...) }
	admin := harness.Raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	line := func(t *testing.T, perms int32) *Mutex {
		path := harness.NewPath(t)
		harness.MakeParents(t, admin, parent(path))
		_, err := admin.Create(path, nil, 0, world(perms))
		require.NoError(t, err)
		return NewMutex(r.c, path)
	}
	t.Run("create", func(t *testing.T) {
		m := line(t, zk.PermRead|zk.PermWrite|zk.PermDelete)
		_, err := m.Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "zkrecipes: lock "+m.line.path)
	})
	t.Run("create of the line", func(t *testing.T) {
		m := line(t, zk.PermRead)
		_, err := NewMutex(r.c, m.line.path+"/below").Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
	t.Run("list", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermRead)
		_, err := m.Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = m.TryLock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
	t.Run("setData is done without", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermWrite)
		l := lockOn(t, m)
		a := lockLater(t, NewMutex(dial(t, nil), m.line.path))
		harness.Eventually(t, "two in line", func() bool { return len(harness.Children(t, r.raw, m.line.path)) == 2 })
		require.True(t, a.Waiting())
		_, stat, err := r.raw.Get(l.Check().Path)
		require.NoError(t, err)
		require.EqualValues(t, stat.Czxid, l.Token())
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		data, _, err := r.raw.Get(m.line.path)
		require.NoError(t, err)
		require.Empty(t, data)
	})
	t.Run("delete", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermDelete)
		c := dial(t, nil)
		l := lockOn(t, NewMutex(c, m.line.path))
		require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
		require.ErrorIs(t, l.Err(), ErrReleased)
		require.NotEmpty(t, harness.Children(t, r.raw, m.line.path))
		require.NoError(t, c.Close()) // the session takes the place with it
		require.Empty(t, harness.Children(t, r.raw, m.line.path))
	})
}

func TestB36OnEachSideNoAuthIsAnErrorAtOnce(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			ctx, conn, c := harness.Within(t, 20*time.Second), harness.Raw(t), dial(t, nil)
			line := func(perms int32) (string, locker) {
				path := harness.NewPath(t)
				harness.MakeParents(t, conn, parent(path))
				_, err := conn.Create(path, nil, 0, zk.WorldACL(perms))
				require.NoError(t, err)
				return path, side.ours(c, path)
			}
			_, m := line(zk.PermAll &^ zk.PermCreate)
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, m = line(zk.PermAll &^ zk.PermRead)
			_, err = m.Lock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)

			path, m := line(zk.PermAll &^ zk.PermWrite) // setData is done without
			l := held(t, m.Lock)
			a := later(t, side.theirs(dial(t, nil), path).Lock)
			harness.Eventually(t, "two in line", func() bool { return len(harness.Children(t, conn, path)) == 2 })
			require.True(t, a.Waiting())
			_, stat, err := conn.Get(l.Check().Path)
			require.NoError(t, err)
			require.EqualValues(t, stat.Czxid, l.Token())
			require.NoError(t, l.Release())
			require.NoError(t, a.Get().Release())

			_, m = line(zk.PermAll &^ zk.PermDelete)
			l = held(t, m.Lock)
			require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
			require.ErrorIs(t, l.Err(), ErrReleased)
		})
	}
}
