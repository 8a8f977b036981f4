package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// What Client.Watch and Client.WatchChildren yield.

func TestWatchYieldsEachStateAndNone(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		r := watchesAt(t, a, w.path)
		w.creates(w.path, "1")
		w.sets(w.path, "2")
		w.sets(w.path, "2") // the same data, in another version
		w.deletes(w.path)
		w.creates(w.path, "3")
		w.creates(w.path+"/child", "x")
		require.Equal(t, []string{"none", "1", "2", "2", "none", "3"}, r.texts())
		r.stop()
		require.ErrorIs(t, r.ended(), context.Canceled)
		require.ErrorContains(t, r.err, "zkrecipes: watch /config: ")
	})
}

func TestWatchYieldsTheStat(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		w.sets(w.path, "2")
		_, want, err := w.operator.Get(w.path)
		require.NoError(t, err)
		for n, err := range a.Watch(t.Context(), w.path) {
			require.NoError(t, err)
			require.Equal(t, want, n.Stat)
			break
		}
		for n, err := range a.WatchChildren(t.Context(), w.path) {
			require.NoError(t, err)
			require.Equal(t, Children{[]string{}, want}, n)
			break
		}
	})
}

func TestWatchChildrenYieldsEachListingAndNone(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		r := listsOf(t, a, w.path)
		w.creates(w.path, "")
		w.creates(w.path+"/b", "")
		w.creates(w.path+"/a", "")
		w.sets(w.path, "x")
		w.sets(w.path+"/a", "x")
		w.creates(w.path+"/a/grandchild", "")
		w.deletes(w.path + "/b")
		w.deletes(w.path + "/a/grandchild")
		w.deletes(w.path + "/a")
		w.deletes(w.path)
		w.creates(w.path, "")
		require.Equal(t, []string{"none", "[]", "[b]", "[a b]", "[a]", "[]", "none", "[]"}, r.texts())
	})
}

func TestWatchYieldsTheLatestToASlowReader(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		var seen []string
		for n, err := range a.Watch(t.Context(), w.path) {
			require.NoError(t, err)
			seen = append(seen, string(n.Data))
			if len(seen) == 2 {
				break
			}
			w.creates(w.path, "0")
			for i := range 10 {
				w.sets(w.path, fmt.Sprint(i))
			}
		}
		require.Equal(t, []string{"", "9"}, seen)
	})
}

// The caller may change what it gets, and others that share the watch see nothing of that.
func TestWatchYieldsMemoryOfTheCallersOwn(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		w.creates(w.path+"/a", "")
		for range 2 {
			for n, err := range a.Watch(t.Context(), w.path) {
				require.NoError(t, err)
				require.Equal(t, "1", string(n.Data))
				require.EqualValues(t, 0, n.Stat.Version)
				n.Data[0], n.Stat.Version = 'x', 7
				break
			}
			for n, err := range a.WatchChildren(t.Context(), w.path) {
				require.NoError(t, err)
				require.Equal(t, []string{"a"}, n.Names)
				n.Names[0] = "x"
				break
			}
		}
	})
}

func TestWatchIsUnderThePrefixAndHasTheCredentials(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		owner := Auth{Scheme: "digest", Data: []byte("owner:x")}
		w.creates("/app", "the prefix")
		_, err := w.operator.Create("/app/config", []byte("1"), 0, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		c := w.stranger(&Options{Prefix: "/app", Auth: []Auth{owner}})
		require.Equal(t, "1", watchesAt(t, c, "/config").last())
		require.Equal(t, "the prefix", watchesAt(t, c, "/").last())
		require.Equal(t, "[config]", listsOf(t, c, "/").last())
		data, _, err := c.Get(t.Context(), "/config")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		require.Equal(t, "[app zookeeper]", listsOf(t, w.stranger(nil), "/").last())
	})
}

func TestWatchesGoOnInTheNextSession(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		r, l := watchesAt(t, a, w.path), listsOf(t, a, w.path)
		w.srv.Expire(sessionID(a))
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"1"}, r.texts(), "nothing has changed")
		require.Equal(t, []string{"[]"}, l.texts())
		w.srv.Expire(sessionID(a))
		w.sets(w.path, "2") // while there is no session
		w.creates(w.path+"/a", "")
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"1", "2"}, r.texts())
		require.Equal(t, []string{"[]", "[a]"}, l.texts())
	})
}

func TestWatchesSeeWhatHasChangedWhileTheyWereDisconnected(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		r := watchesAt(t, a, w.path)
		w.away(a)
		w.deletes(w.path)
		w.creates(w.path, "2")
		require.Equal(t, []string{"1"}, r.texts())
		w.back()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"1", "2"}, r.texts())
		w.away(a)
		w.deletes(w.path)
		time.Sleep(time.Minute) // the session expires
		w.back()
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"1", "2", "none"}, r.texts())
	})
}

func TestWatchesEndWhenTheClientIsClosed(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		r, l := watchesAt(t, a, w.path), listsOf(t, a, w.path)
		require.NoError(t, a.Close())
		require.ErrorIs(t, r.ended(), ErrClosed)
		require.ErrorIs(t, l.ended(), ErrClosed)
		require.Equal(t, []string{"none"}, r.texts())
		require.ErrorIs(t, watchesAt(t, a, w.path).ended(), ErrClosed)
		_, _, err := a.Get(t.Context(), w.path)
		require.ErrorIs(t, err, ErrClosed)

		lease := lockOn(t, NewMutex(b, "/lock"))
		r = watchesAt(t, b, w.path)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- b.Shutdown(ctx) }()
		w.creates(w.path, "during the shutdown")
		require.Equal(t, "during the shutdown", r.last())
		require.NoError(t, lease.Release())
		require.NoError(t, <-ended)
		require.ErrorIs(t, r.ended(), ErrClosed)
	})
}

func TestAWatchThatMayNotReadGetsNoAuth(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		require.NoError(t, w.operator.AddAuth("digest", []byte("owner:x")))
		_, err := w.operator.Create(w.path, nil, 0, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		require.ErrorIs(t, watchesAt(t, a, w.path).ended(), zk.ErrNoAuth)
		require.ErrorIs(t, listsOf(t, a, w.path).ended(), zk.ErrNoAuth)
		_, _, err = a.Get(t.Context(), w.path)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

func TestWatchFailsWhereTheServersTellOfEarlierStatesOnly(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, _, _ *Client) {
		opts, switchOver := w.restored()
		w.creates(w.path, "0")
		for i := range 100 {
			w.sets(w.path, fmt.Sprint(i))
		}
		r := watchesAt(t, w.stranger(opts), w.path)
		began := time.Now()
		switchOver(w.path)
		require.ErrorIs(t, r.ended(), watch.ErrWentBack)
		require.Equal(t, []string{"99"}, r.texts())
		require.Less(t, time.Since(began), time.Minute)
	})
}

func TestSpuriousEventsYieldNothing(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		r, l := watchesAt(t, a, w.path), listsOf(t, a, w.path)
		for range 3 {
			spurious(a, w.path, jute.EventCreated)
			synctest.Wait()
		}
		w.creates(w.path, "1")
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted, jute.EventChildrenChanged} {
			spurious(a, w.path, event)
			synctest.Wait()
		}
		require.Equal(t, []string{"none", "1"}, r.texts())
		require.Equal(t, []string{"none", "[]"}, l.texts())
	})
}

func TestAWatchThatIsGoneLeavesNoWatchBeyondItsPath(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		for range 100 {
			for _, err := range a.Watch(t.Context(), w.path) {
				require.NoError(t, err)
				break
			}
			for _, err := range a.WatchChildren(t.Context(), w.path) {
				require.NoError(t, err)
				break
			}
		}
		require.Equal(t, 2, watchesOf(a))
	})
}

func TestReadsAndWatchesRefuseBadInput(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		var noContext context.Context
		require.Empty(t, w.requests(func() {
			for _, test := range []struct {
				c    *Client
				ctx  context.Context
				path string
				text string
			}{
				{nil, t.Context(), "/a", "nil client"},
				{&Client{}, t.Context(), "/a", "client was not made by Dial"},
				{a, noContext, "/a", "nil context"},
				{a, t.Context(), "", "path is empty"},
				{a, t.Context(), "a", `path does not begin with "/"`},
				{a, t.Context(), "/a/", `path ends with "/"`},
			} {
				_, _, err := test.c.Get(test.ctx, test.path)
				require.ErrorContains(t, err, "zkrecipes: get ")
				require.ErrorContains(t, err, test.text)
				_, _, err = test.c.Children(test.ctx, test.path)
				require.ErrorContains(t, err, "zkrecipes: list ")
				require.ErrorContains(t, err, test.text)
				_, err = test.c.Exists(test.ctx, test.path)
				require.ErrorContains(t, err, "zkrecipes: look at ")
				require.ErrorContains(t, err, test.text)
				n := 0
				for node, err := range test.c.Watch(test.ctx, test.path) {
					require.True(t, node.None())
					require.ErrorContains(t, err, "zkrecipes: watch ")
					require.ErrorContains(t, err, test.text)
					n++
				}
				for children, err := range test.c.WatchChildren(test.ctx, test.path) {
					require.True(t, children.None())
					require.ErrorContains(t, err, test.text)
					n++
				}
				require.Equal(t, 2, n)
			}
		}))
	})
}

func TestReadsReturnWhatIsThere(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		_, _, err := a.Get(t.Context(), w.path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "zkrecipes: get /config: zk: node does not exist")
		_, err = a.Exists(t.Context(), w.path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, _, err = a.Children(t.Context(), w.path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		w.creates(w.path, "1")
		w.creates(w.path+"/b", "")
		w.creates(w.path+"/a", "")
		data, stat, err := a.Get(t.Context(), w.path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		names, same, err := a.Children(t.Context(), w.path)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, names)
		require.Equal(t, stat, same)
		same, err = a.Exists(t.Context(), w.path)
		require.NoError(t, err)
		require.Equal(t, stat, same)
	})
}

func TestReadsGoOnInTheNextSession(t *testing.T) {
	inWatchBubble(t, func(t *testing.T, w *watchWorld, a, _ *Client) {
		w.creates(w.path, "1")
		w.away(a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := a.Get(ctx, w.path)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no connection")
		time.AfterFunc(time.Minute, w.back)
		data, _, err := a.Get(t.Context(), w.path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	})
}
