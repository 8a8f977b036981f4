package watch_test

import (
	"context"
	"fmt"
	"runtime"
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
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What can go wrong with Client.WatchTree.

// A server that refuses a request now and then is asked again for that znode, and not for all.
func TestATreeIsReadFromServersThatRefuseSomeReadsForNow(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "")
		const n = 300
		for i := range n {
			w.Creates(fmt.Sprintf("%s/%d", w.Path, i), "x")
		}
		for i := range 100 { // one of 50 requests, again and again
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, Op: "getData", Skip: 50 * i})
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, Op: "exists", Skip: 50 * i})
		}
		var m *mirror
		counts := w.ReadsOf(func() { m = mirrors(t, a, w.Path, nil); time.Sleep(time.Minute) })
		w.Plan.Stop()
		require.Equal(t, treeOf(t, w.Operator, w.Path), m.text())
		require.Less(t, counts["getData"]+counts["exists"], 2*n)
		require.Equal(t, 1, counts["addWatch"])
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, Op: "getData"})
		w.Creates(w.Path+"/new", "y")
		time.Sleep(time.Minute)
		require.Contains(t, m.text(), "/config/new=y")
	})
}

// Before 3.9, a lock whose place is the root of a tree takes the place of the watch of the tree.
func TestBefore39ALockThatWaitsForTheRootOfATreeEndsItsWatch(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(b, "/lock"))
		m := mirrors(t, a, holder.Check().Path, nil)
		require.NotEqual(t, "not read", m.text())
		waits := recipetest.LockLater(t, zkrecipes.NewMutex(a, "/lock"))
		synctest.Wait()
		require.ErrorContains(t, m.failure(), "servers before ZooKeeper 3.9 cannot watch a tree")
		require.NoError(t, holder.Release())
		require.NoError(t, waits.Get().Release())
	}, zktest.Emulate(zktest.ZooKeeper38))
}

// Before 3.9, another watch takes the place of a tree's among those on data, or among those on children. The
// rest of it is taken back, so that the server does not go on to send events of the whole tree.
func TestBefore39NothingIsLeftOfATreesWatchThatAnotherWatchHasEnded(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/a", "2")
		m := mirrors(t, a, w.Path, nil)
		node := recipetest.WatchesAt(t, a, w.Path)
		require.ErrorContains(t, m.failure(), "servers before ZooKeeper 3.9 cannot watch a tree")
		m = mirrors(t, b, w.Path, nil)
		list := recipetest.ListsOf(t, b, w.Path)
		require.ErrorContains(t, m.failure(), "servers before ZooKeeper 3.9 cannot watch a tree")
		before := w.Srv.Counts()
		w.Creates(w.Path+"/a/b", "3")
		w.Sets(w.Path+"/a", "4")
		require.Empty(t, w.Srv.Counts().Sub(before).Events)
		w.Sets(w.Path, "5")
		w.Creates(w.Path+"/c", "6")
		require.Equal(t, "5", node.Last())
		require.Equal(t, "[a c]", list.Last())
	}, zktest.Emulate(zktest.ZooKeeper38))
}

// A list begins while a watch of the same tree does, or ends: it learns of changes.
func TestBefore39AListIsNotDeafIfAWatchOfItsTreeBeginsOrEnds(t *testing.T) {
	for _, ends := range []bool{false, true} {
		recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
			w.Creates("/r", "")
			for i := range 2000 {
				path := fmt.Sprintf("/r/%d", i)
				w.Creates(path, "")
				ctx, cancel := context.WithCancel(t.Context())
				tree, end := context.WithCancel(ctx)
				go func() {
					for range a.WatchTree(tree, path, nil) {
					}
				}()
				if ends {
					synctest.Wait()
				}
				var children atomic.Int32
				go func() {
					for range i % 40 {
						runtime.Gosched()
					}
					for c, err := range a.WatchChildren(ctx, path) {
						if err == nil {
							children.Store(int32(len(c.Names)))
						}
					}
				}()
				if ends {
					go end()
				}
				synctest.Wait()
				w.Creates(path+"/x", "")
				require.EqualValues(t, 1, children.Load(), path)
				end()
				cancel()
				synctest.Wait()
			}
		}, zktest.Emulate(zktest.ZooKeeper38))
	}
}

// Locks below a tree that their own client watches are granted in order, by as many requests as
// without it, and the tree is followed.
func TestLocksBelowATreeThatTheirClientWatches(t *testing.T) {
	for _, version := range []zktest.Version{zktest.ZooKeeper39, zktest.ZooKeeper38} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			costs := func(watched bool) (all []map[string]int) {
				recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
					require.NoError(t, create(w.Operator, "/locks", ""))
					first := recipetest.LockOn(t, zkrecipes.NewMutex(a, "/locks/a"))
					require.NoError(t, first.Release())
					var m *mirror
					if watched {
						m = mirrors(t, b, "/locks", nil)
					}
					for i := range 5 {
						counts := w.Requests(func() {
							holder := recipetest.LockOn(t, zkrecipes.NewMutex(a, "/locks/a"))
							waits := recipetest.LockLater(t, zkrecipes.NewMutex(b, "/locks/a"))
							synctest.Wait()
							if i == 3 { // it is deleted, and not released
								_, err := w.Operator.Set(holder.Check().Path, []byte("x"), -1)
								require.NoError(t, err)
								require.NoError(t, w.Operator.Delete(holder.Check().Path, -1))
							} else {
								require.NoError(t, holder.Release())
							}
							l := waits.Get()
							require.NoError(t, l.Err())
							time.Sleep(5 * time.Second)
							require.NoError(t, l.Err())
							require.NoError(t, l.Release())
						})
						for _, op := range []string{"ping", "getData", "exists"} { // those of the tree, too
							delete(counts, op)
						}
						all = append(all, counts)
					}
					if watched {
						require.Equal(t, "/locks/a="+w.Text("/locks/a")+" /locks=", m.text())
					}
				}, zktest.Emulate(version))
				return all
			}
			require.Equal(t, costs(false), costs(true))
		})
	}
}

// What is in doubt when a connection is lost is read on the next one: events and replies come
// slowly, and connections are lost all the time.
func TestATreeIsFollowedOnConnectionsThatDoNotLast(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		w.Creates(w.Path, "")
		for i := range 20 {
			w.Creates(fmt.Sprintf("%s/%d", w.Path, i), "x")
			w.Creates(fmt.Sprintf("%s/%d/below", w.Path, i), "x")
		}
		link := harness.NewLink(w.Srv)
		link.SetLatency(20 * time.Millisecond)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		m := mirrors(t, c, w.Path, nil)
		for i := range 200 {
			time.Sleep(time.Duration(i*7%150) * time.Millisecond)
			w.Srv.Disconnect(recipetest.SessionID(c))
			path := fmt.Sprintf("%s/%d/below", w.Path, i%20)
			if err := w.Operator.Delete(path, -1); err != nil {
				require.ErrorIs(t, err, zk.ErrNoNode)
				w.Creates(path, fmt.Sprint(i))
			}
		}
		time.Sleep(time.Minute)
		require.Equal(t, treeOf(t, w.Operator, w.Path), m.text())
	})
}
