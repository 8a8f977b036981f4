package watch_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// What Client.WatchTree yields.

// mirror is a copy of a tree, made of what WatchTree yields.
type mirror struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	nodes map[string]zkrecipes.Node
	maps  int // that were yielded
	err   error
}

func mirrors(t *testing.T, c *zkrecipes.Client, root string, opts *zkrecipes.TreeOptions) *mirror {
	ctx, cancel := context.WithCancel(t.Context())
	m := &mirror{t: t, stop: cancel, done: make(chan struct{}), nodes: map[string]zkrecipes.Node{}}
	go func() {
		defer close(m.done)
		for changed, err := range c.WatchTree(ctx, root, opts) {
			m.note(changed, err)
		}
	}()
	t.Cleanup(func() { cancel(); <-m.done })
	synctest.Wait()
	return m
}

func (m *mirror) note(changed map[string]zkrecipes.Node, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err = err; err != nil {
		return
	}
	for path, n := range changed {
		if old := m.nodes[path]; !n.None() && !old.None() && n.Stat.Mzxid < old.Stat.Mzxid {
			m.t.Errorf("%s: %d after %d", path, n.Stat.Mzxid, old.Stat.Mzxid)
		}
	}
	m.maps++
	maps.Copy(m.nodes, changed)
	maps.DeleteFunc(m.nodes, func(_ string, n zkrecipes.Node) bool { return n.None() })
}

// text returns what the mirror has, "not read" before the first map.
func (m *mirror) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.maps == 0 {
		return "not read"
	}
	var all []string
	for path, n := range m.nodes {
		all = append(all, path+"="+string(n.Data))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (m *mirror) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// treeOf returns what an operator sees.
func treeOf(t *testing.T, conn *zk.Conn, root string) string {
	t.Helper()
	data, _, err := conn.Get(root)
	if err == zk.ErrNoNode {
		return ""
	}
	require.NoError(t, err)
	all := []string{root + "=" + string(data)}
	names, _, err := conn.Children(root)
	require.NoError(t, err)
	for _, name := range names {
		if below := treeOf(t, conn, root+"/"+name); below != "" {
			all = append(all, strings.Fields(below)...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestWatchTreeYieldsTheTreeAndWhatChanges(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		m := mirrors(t, a, w.Path, nil)
		require.Empty(t, m.text())
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/a", "2")
		w.Creates(w.Path+"/a/b", "3")
		w.Creates(w.Path+"x", "another tree")
		require.Equal(t, "/config/a/b=3 /config/a=2 /config=1", m.text())
		w.Sets(w.Path+"/a/b", "4")
		w.Deletes(w.Path + "/a/b")
		w.Sets(w.Path, "5")
		require.Equal(t, "/config/a=2 /config=5", m.text())
		require.Equal(t, 7, m.maps)

		second := mirrors(t, a, w.Path, nil)
		require.Equal(t, m.text(), second.text())
		m.stop()
		<-m.done
		require.ErrorIs(t, m.failure(), context.Canceled)
		w.Deletes(w.Path + "/a")
		w.Deletes(w.Path)
		require.Empty(t, second.text(), "the watch that both shared is still there")
	})
}

func TestWatchTreeIsUnderThePrefix(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		w.Creates("/app", "prefix")
		w.Creates("/app/a", "1")
		c := w.Stranger(&zkrecipes.Options{Prefix: "/app"})
		require.Equal(t, "/=prefix /a=1", mirrors(t, c, "/", nil).text())
		require.Equal(t, "/a=1", mirrors(t, c, "/a", nil).text())
		require.Contains(t, mirrors(t, w.Stranger(nil), "/", nil).text(), "/app/a=1")
	})
}

// Whatever happens at any request: nothing older is yielded (see note), and in the end all is.
func TestWatchTreeSurvivesAMishapAtAnyRequest(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
			w.Creates(w.Path, "1")
			w.Creates(w.Path+"/a", "2")
			w.Plan.Add(fault)
			m := mirrors(t, a, w.Path, nil)
			w.Insists(func() error { return create(w.Operator, w.Path+"/a/b", "3") }, zk.ErrNodeExists)
			w.Insists(func() error { _, err := w.Operator.Set(w.Path, []byte("4"), -1); return err }, nil)
			w.Insists(func() error { return w.Operator.Delete(w.Path+"/a/b", -1) }, zk.ErrNoNode)
			w.Insists(func() error { return create(w.Operator, w.Path+"/c", "5") }, zk.ErrNodeExists)
			time.Sleep(time.Minute)
			require.Equal(t, "/config/a=2 /config/c=5 /config=4", m.text())
			met = w.Met()
		})
		return met
	})
}

// Random changes while connections are lost, sessions end and servers lag: after each quiet
// while the copy is the tree.
func TestWatchTreeFollowsRandomChangesThroughFaults(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			version := zktest.Emulate([]zktest.Version{zktest.ZooKeeper39, zktest.ZooKeeper38}[seed%2])
			recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
				r := rand.New(rand.NewPCG(seed, 1))
				all := []*mirror{mirrors(t, a, w.Path, nil), mirrors(t, a, w.Path+"/1", nil), mirrors(t, b, w.Path, nil)}
				for range 12 {
					for range r.IntN(40) {
						change(r, w.Operator, w.Path)
						time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
						switch r.IntN(25) {
						case 0:
							w.Srv.Disconnect(recipetest.SessionID(a))
						case 1:
							w.Plan.Add(zktest.Fault{Do: zktest.Lag, Times: 2, Behind: 3, For: time.Second})
							w.Srv.Disconnect(recipetest.SessionID(b))
						case 2:
							w.Srv.Expire(recipetest.SessionID(b))
						}
					}
					time.Sleep(time.Minute)
					want := treeOf(t, w.Operator, w.Path)
					require.Equal(t, want, all[0].text())
					require.Equal(t, want, all[2].text())
					require.Equal(t, treeOf(t, w.Operator, w.Path+"/1"), all[1].text())
				}
			}, version, recipetest.MayLag())
		})
	}
}

// change makes a random change below root, whatever the servers say of it.
func change(r *rand.Rand, conn *zk.Conn, root string) {
	path := root
	for range r.IntN(4) {
		path += fmt.Sprintf("/%d", r.IntN(3))
	}
	switch r.IntN(3) {
	case 0:
		_, _ = conn.Create(path, []byte(fmt.Sprint(r.IntN(1000))), 0, zk.WorldACL(zk.PermAll))
	case 1:
		_, _ = conn.Set(path, []byte(fmt.Sprint(r.IntN(1000))), -1)
	case 2:
		if r.IntN(2) == 0 {
			_ = conn.Delete(path, -1)
		}
	}
}

// A slow reader gets the last state of each znode, and the Client keeps no queue of changes.
func TestASlowReaderOfATreeSkipsStates(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "0")
		n := 0
		for changed, err := range a.WatchTree(t.Context(), w.Path, nil) {
			require.NoError(t, err)
			if n++; n == 2 {
				require.Equal(t, "100", string(changed[w.Path].Data))
				return
			}
			for i := range 100 {
				w.Sets(w.Path, fmt.Sprint(i+1))
			}
		}
	})
}

// A znode that changes all the time does not keep the others back.
func TestATreeThatIsNeverQuietIsYieldedAllTheSame(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		w.Creates(w.Path, "")
		w.Creates(w.Path+"/busy", "")
		link := harness.NewLink(w.Srv)
		link.SetLatency(50 * time.Millisecond)
		m := mirrors(t, w.Stranger(&zkrecipes.Options{Dialer: link.Dial}), w.Path, nil)
		for range 300 {
			w.Sets(w.Path+"/busy", "x")
			time.Sleep(10 * time.Millisecond)
		}
		require.NotEqual(t, "not read", m.text())
		before := m.maps
		w.Creates(w.Path+"/quiet", "1")
		for range 300 {
			w.Sets(w.Path+"/busy", "x")
			time.Sleep(10 * time.Millisecond)
		}
		require.Contains(t, m.text(), "/config/quiet=1")
		require.Greater(t, m.maps, before)
	})
}

func TestATreeBeyondItsBoundsIsAnError(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Creates(w.Path, "123")
		w.Creates(w.Path+"/a", "456")
		few, small := mirrors(t, a, w.Path, &zkrecipes.TreeOptions{Znodes: 2}), mirrors(t, b, w.Path, &zkrecipes.TreeOptions{Bytes: 6})
		require.Equal(t, "/config/a=456 /config=123", few.text())
		require.Equal(t, few.text(), small.text())
		w.Creates(w.Path+"/b", "7")
		require.ErrorIs(t, few.failure(), zkrecipes.ErrTreeTooLarge)
		require.EqualError(t, few.failure(), "zkrecipes: watch tree /config: tree is too large: more than 2 znodes")
		require.EqualError(t, small.failure(), "zkrecipes: watch tree /config: tree is too large: more than 6 bytes of data")
		require.ErrorIs(t, mirrors(t, a, w.Path, &zkrecipes.TreeOptions{Znodes: 2}).failure(), zkrecipes.ErrTreeTooLarge)
		require.EqualError(t, mirrors(t, a, w.Path, &zkrecipes.TreeOptions{Znodes: -1}).failure(), "zkrecipes: watch tree /config: TreeOptions.Znodes must not be negative: -1")
		require.EqualError(t, mirrors(t, a, w.Path, &zkrecipes.TreeOptions{Bytes: -1}).failure(), "zkrecipes: watch tree /config: TreeOptions.Bytes must not be negative: -1")
	})
}

// What has gone while the connection was lost does not count beside what has come.
func TestATreeThatWasReplacedMeanwhileIsWithinItsBounds(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		for _, path := range []string{w.Path, w.Path + "/a", w.Path + "/old", w.Path + "/z", w.Path + "/z/1"} {
			w.Creates(path, "12")
		}
		few, small := mirrors(t, a, w.Path, &zkrecipes.TreeOptions{Znodes: 5}), mirrors(t, b, w.Path, &zkrecipes.TreeOptions{Bytes: 10})
		for range 2 {
			w.Srv.Expire(recipetest.SessionID(a))
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(b)))
			require.NoError(t, w.Operator.Delete(w.Path+"/old", -1))
			w.Creates(w.Path+"/new", "12")
			require.NoError(t, w.Operator.Delete(w.Path+"/z/1", -1))
			w.Creates(w.Path+"/a/1", "12")
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, m := range []*mirror{few, small} {
				require.NoError(t, m.failure())
				require.Equal(t, "/config/a/1=12 /config/a=12 /config/new=12 /config/z=12 /config=12", m.text())
			}
			require.NoError(t, w.Operator.Delete(w.Path+"/new", -1))
			w.Creates(w.Path+"/old", "12")
			require.NoError(t, w.Operator.Delete(w.Path+"/a/1", -1))
			w.Creates(w.Path+"/z/1", "12")
			synctest.Wait()
		}
		w.Creates(w.Path+"/more", "")
		synctest.Wait()
		require.ErrorIs(t, few.failure(), zkrecipes.ErrTreeTooLarge)
	})
}

func TestAZnodeThatMayNotBeReadEndsAWatchOfItsTree(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
		w.Creates("/app", "")
		w.Creates("/app/config", "")
		c := w.Stranger(&zkrecipes.Options{Prefix: "/app"})
		m := mirrors(t, c, "/config", nil)
		_, err := w.Operator.Create("/app/config/secret", nil, 0, zk.DigestACL(zk.PermAll, "somebody", "else"))
		require.NoError(t, err)
		w.Srv.Expire(recipetest.SessionID(c)) // servers may send no event of it
		time.Sleep(time.Minute)
		require.ErrorIs(t, m.failure(), zk.ErrNoAuth)
		require.EqualError(t, m.failure(), "zkrecipes: watch tree /config: /config/secret: zk: not authenticated")
	})
}

func TestServersThatCannotWatchATreeAreAnError(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrUnimplemented, Op: "addWatch"})
		require.ErrorContains(t, mirrors(t, a, w.Path, nil).failure(), "is it older than ZooKeeper 3.6?")
	})
}

// Before 3.9 the latest watch on a path takes the place of the others.
func TestBefore39ATreeAndItsRootAreNotWatchedTogether(t *testing.T) {
	const want = "zkrecipes: watch tree /config: servers before ZooKeeper 3.9 cannot watch a tree for a client that watches its root in another way"
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		list := recipetest.ListsOf(t, a, w.Path)
		require.EqualError(t, mirrors(t, a, w.Path, nil).failure(), want)
		w.Creates(w.Path+"/a", "2")
		require.Equal(t, "[a]", list.Last())

		m := mirrors(t, b, w.Path, nil)
		below := recipetest.WatchesAt(t, b, w.Path+"/a")
		w.Sets(w.Path+"/a", "3")
		require.Equal(t, "3", below.Last())
		require.Equal(t, "/config/a=3 /config=1", m.text())
		list = recipetest.ListsOf(t, b, w.Path)
		require.EqualError(t, m.failure(), want)
		w.Creates(w.Path+"/b", "4")
		require.Equal(t, "[a b]", list.Last())
	}, zktest.Emulate(zktest.ZooKeeper38))

	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		m, list, node := mirrors(t, a, w.Path, nil), recipetest.ListsOf(t, a, w.Path), recipetest.WatchesAt(t, a, w.Path)
		w.Creates(w.Path+"/a", "2")
		w.Sets(w.Path, "3")
		require.Equal(t, "/config/a=2 /config=3", m.text())
		require.Equal(t, "[a]", list.Last())
		require.Equal(t, "3", node.Last())
	})
}

// Servers that have lost transactions.
func TestATreeGoesBackWithTheServers(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		w.Creates(w.Path+"/a", "2")
		m := mirrors(t, a, w.Path, nil)
		snap := w.Srv.Snapshot()
		w.Creates(w.Path+"/b", "3")
		w.Deletes(w.Path + "/a")
		require.Equal(t, "/config/b=3 /config=1", m.text())
		w.Srv.Restore(snap)
		time.Sleep(time.Minute)
		require.Equal(t, "/config/a=2 /config=1", m.text())
	})
}
