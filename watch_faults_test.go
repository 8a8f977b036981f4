package zkrecipes

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults that hit watches. Whatever happens, they show no state older than one before, and
// the last one in the end.

func TestB103WatchesSurviveAMishapAtAnyRequest(t *testing.T) {
	eachRequest(t, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
			w.plan.Add(fault)
			r, l := watchesAt(t, a, w.path), listsOf(t, a, w.path)
			w.insists(func() error { return create(w.operator, w.path, "1") }, zk.ErrNodeExists)
			w.insists(func() error { return create(w.operator, w.path+"/a", "") }, zk.ErrNodeExists)
			w.insists(func() error { _, err := w.operator.Set(w.path, []byte("2"), -1); return err }, nil)
			w.insists(func() error { return w.operator.Delete(w.path+"/a", -1) }, zk.ErrNoNode)
			w.insists(func() error { return w.operator.Delete(w.path, -1) }, zk.ErrNoNode)
			w.insists(func() error { return create(w.operator, w.path, "3") }, zk.ErrNodeExists)
			time.Sleep(time.Minute)
			require.True(t, inOrder(slices.Compact(r.texts()), "none", "1", "2", "none", "3"), "%q", r.texts())
			require.True(t, inOrder(l.texts(), "none", "[]", "[a]", "[]", "none", "[]"), "%q", l.texts())
			require.Equal(t, "3", r.last())
			require.Equal(t, "[]", l.last())
			met = w.met()
		})
		return met
	})
}

// insists repeats a change until it is applied. done is the error of one that was applied before.
func (w *watchWorld) insists(change func() error, done error) {
	w.t.Helper()
	for {
		err := change()
		if err == nil || done != nil && errors.Is(err, done) {
			break
		}
		require.True(w.t, errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrNoServer) || err.Error() == "unknown error: -7", "%v", err)
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Second)
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
func TestB103AWatchsNextServerLags(t *testing.T) {
	for name, gone := range map[string]bool{"there": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
				c := w.stranger(nil)
				w.creates(w.path, "1")
				w.deletes(w.path)
				w.creates(w.path, "2")
				r, l := watchesAt(t, c, w.path), listsOf(t, c, w.path)
				want, listed := []string{"2"}, []string{"[]"}
				if gone {
					w.deletes(w.path)
					time.Sleep(10 * time.Second)
					want, listed = []string{"2", "none"}, []string{"[]", "none"}
				}
				require.Equal(t, want, r.texts())
				require.Equal(t, listed, l.texts())
				w.srv.Expire(sessionID(c))
				time.Sleep(time.Minute)
				require.Equal(t, want, r.texts())
				require.Equal(t, listed, l.texts())
			}, behind(3, 20))
		})
	}
}

// A watch of a Client whose session has just begun: opening a session brings the replica up
// to date, and the znode changes after that.
func TestB103WatchBeginsWithASync(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		c := w.stranger(nil)
		w.creates(w.path, "1")
		w.creates(w.path+"/a", "")
		r, l := watchesAt(t, c, w.path), listsOf(t, c, w.path)
		require.Equal(t, []string{"1"}, r.texts())
		require.Equal(t, []string{"[a]"}, l.texts())
		r.stop()
		w.deletes(w.path + "/a")
		w.deletes(w.path)
		require.Equal(t, []string{"none"}, watchesAt(t, c, w.path).texts())
	}, behind(3, 20))
}

// The connection is lost, and the next server, in the same session, lags behind the events
// that the client has got.
func TestB103AWatchReconnectsToAServerThatLags(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		c := w.stranger(nil)
		r := watchesAt(t, c, w.path)
		for _, data := range []string{"1", "2", "3"} {
			if data == "1" {
				w.creates(w.path, data)
			} else {
				w.sets(w.path, data)
			}
			w.srv.Disconnect(sessionID(c))
			time.Sleep(20 * time.Second)
		}
		w.deletes(w.path)
		w.srv.Disconnect(sessionID(c))
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"none", "1", "2", "3", "none"}, r.texts())
	}, behind(3, 20))
}

// A read may show what was so before the call, unless Ping was called first.
func TestB103AReadBehindAPingIsNoOlderThanThePing(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		c := w.stranger(nil)
		w.creates(w.path, "1")
		_, _, err := c.Get(t.Context(), w.path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NoError(t, c.Ping(t.Context()))
		data, _, err := c.Get(t.Context(), w.path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	}, behind(3, 20))
}

func TestB103WatchesSurviveLostReplies(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		for _, op := range []string{"sync", "getData", "exists", "getChildren2"} {
			for _, after := range []bool{false, true} {
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: op, Times: 2})
			}
		}
		r, l := watchesAt(t, a, w.path), listsOf(t, a, w.path)
		time.Sleep(20 * time.Second)
		for range 3 {
			w.creates(w.path, "1")
			time.Sleep(5 * time.Second)
			w.deletes(w.path)
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, "none", r.last())
		require.Equal(t, "none", l.last())
		require.Contains(t, r.texts(), "1")
		require.Contains(t, l.texts(), "[]")
	})
}
