package watch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit watches. Whatever happens, they show no state older than one before, and
// the last one in the end.

func TestWatchesSurviveAMishapAtAnyRequest(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
			w.Plan.Add(fault)
			r, l := recipetest.WatchesAt(t, a, w.Path), recipetest.ListsOf(t, a, w.Path)
			w.Insists(func() error { return create(w.Operator, w.Path, "1") }, zk.ErrNodeExists)
			w.Insists(func() error { return create(w.Operator, w.Path+"/a", "") }, zk.ErrNodeExists)
			w.Insists(func() error { _, err := w.Operator.Set(w.Path, []byte("2"), -1); return err }, nil)
			w.Insists(func() error { return w.Operator.Delete(w.Path+"/a", -1) }, zk.ErrNoNode)
			w.Insists(func() error { return w.Operator.Delete(w.Path, -1) }, zk.ErrNoNode)
			w.Insists(func() error { return create(w.Operator, w.Path, "3") }, zk.ErrNodeExists)
			time.Sleep(time.Minute)
			require.True(t, inOrder(slices.Compact(r.Texts()), "none", "1", "2", "none", "3"), "%q", r.Texts())
			require.True(t, inOrder(l.Texts(), "none", "[]", "[a]", "[]", "none", "[]"), "%q", l.Texts())
			require.Equal(t, "3", r.Last())
			require.Equal(t, "[]", l.Last())
			met = w.Met()
		})
		return met
	})
}

func create(conn *zk.Conn, path, data string) error {
	_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	return err
}

// inOrder reports whether seen is history with some of it left out.
func inOrder(seen []string, history ...string) bool {
	for _, s := range seen {
		i := slices.Index(history, s)
		if i < 0 {
			return false
		}
		history = history[i+1:]
	}
	return true
}

// The next session's server is a follower that lags.
func TestAWatchShowsNothingOlderIfTheNextSessionsServerLags(t *testing.T) {
	for _, gone := range []bool{false, true} {
		recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
			c := w.Stranger(nil)
			w.Creates(w.Path, "1")
			w.Deletes(w.Path)
			w.Creates(w.Path, "2")
			r, l := recipetest.WatchesAt(t, c, w.Path), recipetest.ListsOf(t, c, w.Path)
			want, listed := []string{"2"}, []string{"[]"}
			if gone {
				w.Deletes(w.Path)
				time.Sleep(10 * time.Second)
				want, listed = []string{"2", "none"}, []string{"[]", "none"}
			}
			require.Equal(t, want, r.Texts())
			require.Equal(t, listed, l.Texts())
			w.Srv.Expire(recipetest.SessionID(c))
			time.Sleep(time.Minute)
			require.Equal(t, want, r.Texts())
			require.Equal(t, listed, l.Texts())
		}, recipetest.Behind(3, 20))
	}
}

// A watch of a Client whose session has just begun: opening a session brings the replica
// up to date, and the znode changes after that.
func TestWatchBeginsWithASync(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		c := w.Stranger(nil)
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/a", "")
		r, l := recipetest.WatchesAt(t, c, w.Path), recipetest.ListsOf(t, c, w.Path)
		require.Equal(t, []string{"1"}, r.Texts())
		require.Equal(t, []string{"[a]"}, l.Texts())
		r.Stop()
		w.Deletes(w.Path + "/a")
		w.Deletes(w.Path)
		require.Equal(t, []string{"none"}, recipetest.WatchesAt(t, c, w.Path).Texts())
	}, recipetest.Behind(3, 20))
}

// The connection is lost, and the next server, in the same session, lags behind the events
// that the client has got.
func TestAWatchShowsNothingOlderAfterAReconnectToAServerThatLags(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		c := w.Stranger(nil)
		r := recipetest.WatchesAt(t, c, w.Path)
		for _, data := range []string{"1", "2", "3"} {
			if data == "1" {
				w.Creates(w.Path, data)
			} else {
				w.Sets(w.Path, data)
			}
			w.Srv.Disconnect(recipetest.SessionID(c))
			time.Sleep(20 * time.Second)
		}
		w.Deletes(w.Path)
		w.Srv.Disconnect(recipetest.SessionID(c))
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"none", "1", "2", "3", "none"}, r.Texts())
	}, recipetest.Behind(3, 20))
}

// A read may show what was so before the call, unless Ping was called first.
func TestAReadBehindAPingIsNoOlderThanThePing(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		c := w.Stranger(nil)
		w.Creates(w.Path, "1")
		_, _, err := c.Get(t.Context(), w.Path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NoError(t, c.Ping(t.Context()))
		data, _, err := c.Get(t.Context(), w.Path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	}, recipetest.Behind(3, 20))
}
