package watch_test

import (
	"context"
	"fmt"
	"iter"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// What Client.Watch and Client.WatchChildren yield.

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

func TestWatchYieldsEachStateAndNone(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		r := recipetest.WatchesAt(t, a, w.Path)
		w.Creates(w.Path, "1")
		w.Sets(w.Path, "2")
		w.Sets(w.Path, "2") // the same data, in another version
		w.Deletes(w.Path)
		w.Creates(w.Path, "3")
		w.Creates(w.Path+"/child", "x")
		require.Equal(t, []string{"none", "1", "2", "2", "none", "3"}, r.Texts())
		r.Stop()
		require.ErrorIs(t, r.Ended(), context.Canceled)
		require.ErrorContains(t, r.Err, "zkrecipes: watch /config: ")
	})
}

// first returns what an iterator yields first.
func first[A any](t *testing.T, all iter.Seq2[A, error]) (one A) {
	t.Helper()
	for a, err := range all {
		require.NoError(t, err)
		return a
	}
	return one
}

// The caller may change what it gets, and others that share the watch see nothing of that.
func TestWatchYieldsTheStatAndMemoryOfTheCallersOwn(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/a", "")
		_, want, err := w.Operator.Get(w.Path)
		require.NoError(t, err)
		for range 2 {
			n := first(t, a.Watch(t.Context(), w.Path))
			require.Equal(t, "1", string(n.Data))
			require.Equal(t, want, n.Stat)
			n.Data[0], n.Stat.Version = 'x', 7
			c := first(t, a.WatchChildren(t.Context(), w.Path))
			require.Equal(t, zkrecipes.Children{Names: []string{"a"}, Stat: want}, c)
			c.Names[0] = "x"
		}
	})
}

func TestWatchChildrenYieldsEachListingAndNone(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		r := recipetest.ListsOf(t, a, w.Path)
		w.Creates(w.Path, "")
		w.Creates(w.Path+"/b", "")
		w.Creates(w.Path+"/a", "")
		w.Sets(w.Path, "x")
		w.Sets(w.Path+"/a", "x")
		w.Creates(w.Path+"/a/grandchild", "")
		w.Deletes(w.Path + "/b")
		w.Deletes(w.Path + "/a/grandchild")
		w.Deletes(w.Path + "/a")
		w.Deletes(w.Path)
		w.Creates(w.Path, "")
		require.Equal(t, []string{"none", "[]", "[b]", "[a b]", "[a]", "[]", "none", "[]"}, r.Texts())
	})
}

func TestWatchYieldsTheLatestToASlowReader(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		var seen []string
		for n, err := range a.Watch(t.Context(), w.Path) {
			require.NoError(t, err)
			seen = append(seen, string(n.Data))
			if len(seen) == 2 {
				break
			}
			w.Creates(w.Path, "0")
			for i := range 10 {
				w.Sets(w.Path, fmt.Sprint(i))
			}
		}
		require.Equal(t, []string{"", "9"}, seen)
	})
}

func TestWatchIsUnderThePrefixAndHasTheCredentials(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		owner := zkrecipes.Auth{Scheme: "digest", Data: []byte("owner:x")}
		w.Creates("/app", "the prefix")
		_, err := w.Operator.Create("/app/config", []byte("1"), 0, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		c := w.Stranger(&zkrecipes.Options{Prefix: "/app", Auth: []zkrecipes.Auth{owner}})
		require.Equal(t, "1", recipetest.WatchesAt(t, c, "/config").Last())
		require.Equal(t, "the prefix", recipetest.WatchesAt(t, c, "/").Last())
		require.Equal(t, "[config]", recipetest.ListsOf(t, c, "/").Last())
		data, _, err := c.Get(t.Context(), "/config")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		require.Equal(t, "[app zookeeper]", recipetest.ListsOf(t, w.Stranger(nil), "/").Last())
	})
}

func TestWatchesEndWhenTheClientIsClosed(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		r, l := recipetest.WatchesAt(t, a, w.Path), recipetest.ListsOf(t, a, w.Path)
		require.NoError(t, a.Close())
		require.ErrorIs(t, r.Ended(), zkrecipes.ErrClosed)
		require.ErrorIs(t, l.Ended(), zkrecipes.ErrClosed)
		require.Equal(t, []string{"none"}, r.Texts())
		require.ErrorIs(t, recipetest.WatchesAt(t, a, w.Path).Ended(), zkrecipes.ErrClosed)
		_, _, err := a.Get(t.Context(), w.Path)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)

		lease := recipetest.LockOn(t, zkrecipes.NewMutex(b, "/lock"))
		r = recipetest.WatchesAt(t, b, w.Path)
		ctx := harness.Within(t, time.Minute)
		ended := make(chan error)
		go func() { ended <- b.Shutdown(ctx) }()
		w.Creates(w.Path, "during the shutdown")
		require.Equal(t, "during the shutdown", r.Last())
		require.NoError(t, lease.Release())
		require.NoError(t, <-ended)
		require.ErrorIs(t, r.Ended(), zkrecipes.ErrClosed)
	})
}

func TestAWatchThatMayNotReadGetsNoAuth(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		require.NoError(t, w.Operator.AddAuth("digest", []byte("owner:x")))
		_, err := w.Operator.Create(w.Path, nil, 0, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		require.ErrorIs(t, recipetest.WatchesAt(t, a, w.Path).Ended(), zk.ErrNoAuth)
		require.ErrorIs(t, recipetest.ListsOf(t, a, w.Path).Ended(), zk.ErrNoAuth)
		_, _, err = a.Get(t.Context(), w.Path)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

func TestWatchYieldsWhatServersHaveThatWereRestoredWithLowerZxids(t *testing.T) {
	for name, epochs := range map[string]int{"of the same epoch": 0, "of an earlier epoch": 2} {
		t.Run(name, func(t *testing.T) {
			recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
				for range epochs {
					w.Srv.Restore(w.Srv.Snapshot())
					time.Sleep(3 * time.Second) // the operator is connected again
				}
				opts, switchOver := w.Restored()
				w.Creates(w.Path, "0")
				for i := range 100 {
					w.Sets(w.Path, fmt.Sprint(i))
				}
				r := recipetest.WatchesAt(t, w.Stranger(opts), w.Path)
				switchOver(w.Path)
				time.Sleep(time.Minute) // the session is refused, and given up
				require.Equal(t, []string{"99", "restored"}, r.Texts())
			})
		})
	}
}

func TestWatchYieldsWhatIsCreatedOnServersThatWereRestoredWithoutTheZnode(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		opts, switchOver := w.Restored()
		w.Creates(w.Path, "0")
		for i := range 100 {
			w.Sets(w.Path, fmt.Sprint(i))
			w.Creates(fmt.Sprint(w.Path, "/", i), "")
			w.Deletes(fmt.Sprint(w.Path, "/", i))
		}
		c := w.Stranger(opts)
		r, l := recipetest.WatchesAt(t, c, w.Path), recipetest.ListsOf(t, c, w.Path)
		switchOver()
		time.Sleep(time.Minute) // the session is refused, and given up
		restored := harness.RawVia(t, func(network, addr string, _ time.Duration) (net.Conn, error) {
			return opts.Dialer(t.Context(), network, addr)
		}, w.Srv.Addr())
		_, err := restored.Create(w.Path, []byte("new"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"99", "none", "new"}, r.Texts())
		require.Equal(t, []string{"[]", "none", "[]"}, l.Texts())
	})
}

// The session that had it before lives on.
func TestWatchYieldsTheEphemeralZnodeOfAnotherSessionThatIsBack(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		before, after := w.Bare(), w.Bare()
		creates := func(conn *zk.Conn, data string) {
			_, err := conn.Create(w.Path, []byte(data), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		creates(before, "before")
		early := w.Srv.Snapshot()
		require.NoError(t, before.Delete(w.Path, -1))
		creates(after, "after")
		r := recipetest.WatchesAt(t, a, w.Path)
		w.Srv.Restore(early)
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"after", "before"}, r.Texts())
	})
}

// Within a history of the servers, no state is yielded that is older than one before, whatever they
// answer.
func TestWatchFailsWhereTheServersTellOfEarlierStatesOnly(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		const behindTheData = 60 // the part of a Stat from its mzxid on
		var earlier atomic.Bool
		c := w.Stranger(&zkrecipes.Options{Dialer: harness.EditReplies(w.Srv.DialContext, func(op string, record []byte) []byte {
			if op == "getData" && earlier.Load() {
				copy(record[len(record)-behindTheData:], make([]byte, 8))
			}
			return record
		})})
		w.Creates(w.Path, "1")
		r := recipetest.WatchesAt(t, c, w.Path)
		earlier.Store(true)
		w.Sets(w.Path, "2")
		require.ErrorIs(t, r.Ended(), watch.ErrWentBack)
		require.Equal(t, []string{"1"}, r.Texts())
	})
}

func TestSpuriousEventsYieldNothing(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		link := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		r, l := recipetest.WatchesAt(t, c, w.Path), recipetest.ListsOf(t, c, w.Path)
		for range 3 {
			link.Deliver(jute.EventCreated, w.Path)
			synctest.Wait()
		}
		w.Creates(w.Path, "1")
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted, jute.EventChildrenChanged} {
			link.Deliver(event, w.Path)
			synctest.Wait()
		}
		require.Equal(t, []string{"none", "1"}, r.Texts())
		require.Equal(t, []string{"none", "[]"}, l.Texts())
	})
}

func TestAWatchThatIsGoneLeavesNoWatchBeyondItsPath(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		for range 100 {
			first(t, a.Watch(t.Context(), w.Path))
			first(t, a.WatchChildren(t.Context(), w.Path))
		}
		require.Equal(t, []string{w.Path}, w.SessionOf(a).Watches)
	})
}

func TestAWatchThatIsRefusedYieldsTheErrorOnce(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		n := 0
		for node, err := range a.Watch(t.Context(), "a") {
			require.True(t, node.None())
			require.Error(t, err)
			n++
		}
		for children, err := range a.WatchChildren(t.Context(), "a") {
			require.True(t, children.None())
			require.Error(t, err)
			n++
		}
		require.Equal(t, 2, n)
	})
}

func TestReadsReturnWhatIsThere(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		_, _, err := a.Get(t.Context(), w.Path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "zkrecipes: get /config: zk: node does not exist")
		_, err = a.Exists(t.Context(), w.Path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, _, err = a.Children(t.Context(), w.Path)
		require.ErrorIs(t, err, zk.ErrNoNode)
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/b", "")
		w.Creates(w.Path+"/a", "")
		data, stat, err := a.Get(t.Context(), w.Path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		names, same, err := a.Children(t.Context(), w.Path)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, names)
		require.Equal(t, stat, same)
		same, err = a.Exists(t.Context(), w.Path)
		require.NoError(t, err)
		require.Equal(t, stat, same)
	})
}

func TestReadsGoOnInTheNextSession(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		w.Away(a)
		ctx := harness.Within(t, time.Second)
		_, _, err := a.Get(ctx, w.Path)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no connection")
		time.AfterFunc(time.Minute, w.Back)
		data, _, err := a.Get(t.Context(), w.Path)
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	})
}
