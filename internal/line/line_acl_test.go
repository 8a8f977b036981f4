package line_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A line that somebody else has made anew, which lets all join and nobody write.
func TestLineOfOthersThatNobodyMayWriteDoesNotTakeTheIdentity(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		raw := w.Insider()
		require.NoError(t, raw.Delete(w.Path, -1))
		_, err := w.Bare().CreateContainer(w.Path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll&^zk.PermWrite))
		require.NoError(t, err)
		recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Release()
		s, _ := recipetest.Core(c).Session()
		require.True(t, s.IsOwner(), "the identity is lost")
	})
}

// A line that this library has created as a parent.
func TestLineThatWasAParentSignals(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		require.NoError(t, zkrecipes.NewMutex(c, w.Path+"/below").Do(harness.Within(t, time.Minute), recipetest.Nothing))
		require.NoError(t, w.Insider().Delete(w.Path+"/below", -1))
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		next := recipetest.LockLater(t, zkrecipes.NewMutex(d, w.Path))
		synctest.Wait()
		for _, m := range w.Line() {
			require.True(t, m.Signals(), m.Name)
		}
		got := w.Requests(func() { require.NoError(t, l.Release()); next.Get() })
		require.Zero(t, got["getChildren2"], "%v", got)
	})
}

// A client that has no identity takes away the seal, and nobody puts it back.
func TestSealComesBack(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		raw := w.Insider()
		_, stat, err := raw.Get(w.Path)
		require.NoError(t, err)
		_, err = raw.Set(w.Path, []byte("zkrecipes/1 mutex"), stat.Version) // as by a client on a server without digests
		require.NoError(t, err)
		d := w.Stranger(nil)
		for range 3 {
			require.NoError(t, zkrecipes.NewMutex(d, w.Path).Do(harness.Within(t, time.Minute), recipetest.Nothing))
		}
		data, _, err := raw.Get(w.Path)
		require.NoError(t, err)
		require.Contains(t, string(data), "acl=")
	})
}

// Numbers that come again because the parent was made anew.
func TestAccountOfNumbersThatComeAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		raw := w.Bare()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		for range 10 {
			_, err := raw.Create("/p", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			rs, err := l.Commit(t.Context(), zkrecipes.OpCreate("/p/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
			require.NoError(t, err)
			require.NoError(t, raw.Delete(rs[0].Path, -1))
			require.NoError(t, raw.Delete("/p", -1))
		}
		_, err := raw.Create("/p", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		rs, err := l.Commit(t.Context(), zkrecipes.OpCreate("/p/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
		require.NoError(t, err)
		_, err = l.Commit(t.Context(), zkrecipes.OpDelete(rs[0].Path, -1))
		require.NoError(t, err)
		w.Accounted(c)
	})
}

// The client gives no other ACL to a znode that it has not made.
func TestB48AnotherZnodeInTheLinesPlaceStaysAsItIs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		require.NoError(t, w.Insider().Delete(w.Path, -1))
		raw := w.Bare()
		_, err := raw.Create(w.Path, []byte("an operator's"), 0, zk.WorldACL(zk.PermAll&^zk.PermWrite))
		require.NoError(t, err)
		require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Release())
		data, _, err := raw.Get(w.Path)
		require.NoError(t, err)
		require.Equal(t, "an operator's", string(data))
		acl, _, err := raw.GetACL(w.Path)
		require.NoError(t, err)
		require.Equal(t, zk.WorldACL(zk.PermAll&^zk.PermWrite), acl)
	})
}
