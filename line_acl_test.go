package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// A line that somebody else has made anew, which lets all join and nobody write.
func TestLineOfOthersThatNobodyMayWriteDoesNotTakeTheIdentity(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		raw := w.insider()
		require.NoError(t, raw.Delete(w.path, -1))
		_, err := w.bare().CreateContainer(w.path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll&^zk.PermWrite))
		require.NoError(t, err)
		lockOn(t, NewMutex(c, w.path)).Release()
		s, _ := c.client.Session()
		require.True(t, s.IsOwner(), "the identity is lost")
	})
}

// A line that this library has created as a parent.
func TestLineThatWasAParentSignals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		require.NoError(t, NewMutex(c, w.path+"/below").Do(harness.Within(t, time.Minute), nothing))
		require.NoError(t, w.insider().Delete(w.path+"/below", -1))
		l := lockOn(t, NewMutex(c, w.path))
		next := lockLater(t, NewMutex(d, w.path))
		synctest.Wait()
		for _, m := range w.line() {
			require.True(t, m.Signals(), m.Name)
		}
		got := w.requests(func() { require.NoError(t, l.Release()); next.Get() })
		require.Zero(t, got["getChildren2"], "%v", got)
	})
}

// A client that has no identity takes away the seal, and nobody puts it back.
func TestSealComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.client(nil)
		raw := w.insider()
		_, stat, err := raw.Get(w.path)
		require.NoError(t, err)
		_, err = raw.Set(w.path, []byte("zkrecipes/1 mutex"), stat.Version) // as by a client on a server without digests
		require.NoError(t, err)
		d := w.stranger(nil)
		for range 3 {
			require.NoError(t, NewMutex(d, w.path).Do(harness.Within(t, time.Minute), nothing))
		}
		data, _, err := raw.Get(w.path)
		require.NoError(t, err)
		require.Contains(t, string(data), "acl=")
	})
}

// Numbers that come again because the parent was made anew.
func TestAccountOfNumbersThatComeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		raw := w.bare()
		l := lockOn(t, NewMutex(c, w.path))
		for range 10 {
			_, err := raw.Create("/p", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			rs, err := l.Commit(t.Context(), OpCreate("/p/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
			require.NoError(t, err)
			require.NoError(t, raw.Delete(rs[0].Path, -1))
			require.NoError(t, raw.Delete("/p", -1))
		}
		_, err := raw.Create("/p", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		rs, err := l.Commit(t.Context(), OpCreate("/p/n-", nil, zk.FlagEphemeral|zk.FlagSequence, nil))
		require.NoError(t, err)
		_, err = l.Commit(t.Context(), OpDelete(rs[0].Path, -1))
		require.NoError(t, err)
		w.accounted(c)
	})
}

// The client gives no other ACL to a znode that it has not made.
func TestB48AnotherZnodeInTheLinesPlaceStaysAsItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		require.NoError(t, w.insider().Delete(w.path, -1))
		raw := w.bare()
		_, err := raw.Create(w.path, []byte("an operator's"), 0, zk.WorldACL(zk.PermAll&^zk.PermWrite))
		require.NoError(t, err)
		require.NoError(t, lockOn(t, NewMutex(c, w.path)).Release())
		data, _, err := raw.Get(w.path)
		require.NoError(t, err)
		require.Equal(t, "an operator's", string(data))
		acl, _, err := raw.GetACL(w.path)
		require.NoError(t, err)
		require.Equal(t, zk.WorldACL(zk.PermAll&^zk.PermWrite), acl)
	})
}
