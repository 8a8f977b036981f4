package line_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The Client deletes what it has created once that has been idle. In these tests the server
// deletes no containers before an hour is over.

const (
	almostIdle = line.IdleLine - time.Second
	longIdle   = line.IdleLine + 2*time.Second
)

// idles lets time pass, until all goroutines sleep again.
func idles(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// use uses the lock at a path once.
func use(t *testing.T, c *zkrecipes.Client, path string) {
	t.Helper()
	require.NoError(t, zkrecipes.NewMutex(c, path).Do(t.Context(), recipetest.Nothing))
}

func TestALineInUseIsNotEvenLookedAt(t *testing.T) {
	for _, recipe := range []string{"mutex", "waiting mutex", "kept mutex", "election", "double barrier"} {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				var end func() error
				var err error
				switch recipe {
				case "waiting mutex":
					l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
					a := w.LockLater(c)
					end = func() error { return errors.Join(l.Release(), a.Get().Release()) }
				case "kept mutex": // the server deletes idle containers once an hour
					require.NoError(t, zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(50*time.Minute)).Do(t.Context(), recipetest.Nothing))
					end = func() error { time.Sleep(39*time.Minute + 500*time.Millisecond); return nil }
				default:
					end, err = recipetest.Recipes[recipe](t.Context(), c, w.Path)
					require.NoError(t, err)
				}
				requests := w.Requests(func() { idles(11 * time.Minute) })
				require.Zero(t, requests["delete"])
				require.Zero(t, requests["exists"])
				require.NoError(t, end())
				idles(almostIdle)
				require.True(t, w.Has(w.Path))
				idles(5 * time.Second)
				require.False(t, w.Has(w.Path))
			})
		})
	}
}

// A join that the servers have never carried out leaves no trace.
func TestALineWhoseJoinWasLostIsDeletedOnceItIsIdle(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpJoin})
		use(t, c, w.Path)
		require.True(t, w.Met())
		require.Zero(t, c.Status().Znodes)
		idles(longIdle)
		require.False(t, w.Has(w.Path))
	})
}

func TestALineThatAnotherClientHasUsedSinceIsLeftToIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		idles(almostIdle)
		other := w.Client(nil)
		requests := w.Requests(func() { idles(3 * time.Second) })
		require.True(t, w.Has(w.Path))
		require.Zero(t, requests["delete"], "the first client has seen that")
		idles(longIdle)
		require.False(t, w.Has(w.Path), "deleted by the other one")
		require.NoError(t, other.Close())
	})
}

func TestOnlyLinesOfThisLibraryAreDeleted(t *testing.T) {
	all := zk.WorldACL(zk.PermAll)
	lock := func(w *recipetest.World, path string) { use(w.T, w.Stranger(nil), path) }
	made := func(w *recipetest.World, data string) {
		_, err := w.Bare().Create(w.Path, []byte(data), 0, all)
		require.NoError(w.T, err)
	}
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World) error{
		"a container of Curator's": func(w *recipetest.World) error {
			_, err := w.Bare().CreateContainer(w.Path, nil, zk.FlagContainer, all)
			lock(w, w.Path)
			return err
		},
		"an empty znode": func(w *recipetest.World) error { made(w, ""); lock(w, w.Path); return nil },
		"a line whose data a user has replaced": func(w *recipetest.World) error {
			lock(w, w.Path)
			_, err := w.Bare().Set(w.Path, []byte("mine"), -1)
			return err
		},
		"another znode with the same version": func(w *recipetest.World) error {
			lock(w, w.Path)
			require.NoError(w.T, w.Bare().Delete(w.Path, -1))
			made(w, "mine")
			_, err := w.Bare().Set(w.Path, []byte("mine"), -1)
			return err
		},
		"a line to which a user has given a list": func(w *recipetest.World) error {
			lock(w, w.Path)
			_, err := w.Bare().SetACL(w.Path, all, -1)
			return err
		},
		"a line with a child": func(w *recipetest.World) error {
			lock(w, w.Path)
			_, err := w.Bare().Create(w.Path+"/config", nil, 0, all)
			return err
		},
		"a parent of somebody else's": func(w *recipetest.World) error { made(w, ""); lock(w, w.Path+"/a"); return nil },
		"a parent that was made anew": func(w *recipetest.World) error {
			lock(w, w.Path+"/a")
			err := errors.Join(w.Bare().Delete(w.Path+"/a", -1), w.Bare().Delete(w.Path, -1))
			made(w, "")
			return err
		},
	}, func(t *testing.T, w *recipetest.World, make func(w *recipetest.World) error) {
		require.NoError(t, make(w))
		requests := w.Requests(func() { idles(5 * time.Minute) })
		require.True(t, w.Has(w.Path))
		require.LessOrEqual(t, requests["delete"], 1, "of a line below")
		require.LessOrEqual(t, requests["exists"], 2, "not again and again")
	})
}

// The version of a parent's data is that of any fresh znode.
func TestAContainerThatIsReplacedDuringAnOutageIsNotDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link, conn := harness.NewLink(w.Srv), w.Bare()
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		w.AwayBehindTheReplyTo(c, link, "exists", "/app", func() { use(t, c, "/app/a") }, func() {
			require.NoError(t, conn.Delete("/app", -1))
			_, err := conn.Create("/app", []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		})
		idles(time.Minute)
		require.True(t, w.Has("/app"))
		require.Equal(t, "mine", w.Text("/app"))
	})
}

func TestParentsThatTheClientHasCreatedAreDeletedWithTheLastLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for _, path := range []string{"/app/locks/a", "/app/locks/b", "/app/other/c"} {
			use(t, c, path)
		}
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/app/locks/b"))
		idles(time.Minute)
		require.False(t, w.Has("/app/locks/a"))
		require.False(t, w.Has("/app/other"))
		require.True(t, w.Has("/app/locks/b"))
		require.NoError(t, l.Release())
		idles(longIdle)
		require.False(t, w.Has("/app"))
		require.Zero(t, recipetest.Sum(w.Requests(func() { idles(longIdle) })), "they are forgotten")
	})
}

func TestEachRecipeLeavesNothingButWhatMustStay(t *testing.T) {
	stays := map[string][]string{"semaphore": {"/r/p"}, "barrier": {"/r/p"}, "counter": {"/r/p"}, "queue": {"/r/p", "/r/p/s"}}
	for recipe := range recipetest.Recipes {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				for range 2 { // the second time, all of it is made anew
					for range 3 {
						require.NoError(t, recipetest.UseOnce(t.Context(), recipe, c, "/r/p"))
					}
					idles(time.Minute)
					for _, path := range []string{"/r/p/line", "/r/p/slots", "/r/p/room"} {
						require.False(t, w.Has(path), path)
					}
					for _, path := range stays[recipe] {
						require.True(t, w.Has(path), path)
					}
					require.Equal(t, stays[recipe] != nil, w.Has("/r"))
				}
			})
		})
	}
}

func TestManyLinesAreDeletedTogetherAndNotTooFast(t *testing.T) {
	const n = 3_000
	var mu sync.Mutex
	var deleted []time.Time
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := w.NewCore()
		for i := range n {
			require.NoError(t, recipetest.Grab(t, core.MutexLine(fmt.Sprintf("/orders/%d", i)).Acquire, layout.KindLock).Release())
		}
		before := w.Srv.Counts()
		idles(almostIdle)
		mu.Lock()
		require.Empty(t, deleted)
		mu.Unlock()
		idles(time.Minute)
		require.False(t, w.Has("/orders"))
		counts := w.Srv.Counts().Sub(before)
		require.Equal(t, n+1, counts.Requests["delete"])
		require.Equal(t, n+1, counts.Requests["exists"])
		require.Zero(t, line.KnownContainers(core.Client))
		mu.Lock()
		defer mu.Unlock()
		for i, at := range deleted[min(len(deleted), 1_050):] {
			require.GreaterOrEqual(t, at.Sub(deleted[i]), time.Second, "1,000 a second")
		}
		require.Less(t, deleted[n-1].Sub(deleted[0]), n*time.Second/500, "and not too slowly: 500 a second")
	}, zktest.OnChange(func(c zktest.Change) {
		if c.Deleted && len(c.Path) < len("/orders/")+5 && !strings.HasSuffix(c.Path, "/x") { // see zkconn's CreateContainer
			mu.Lock()
			deleted = append(deleted, time.Now())
			mu.Unlock()
		}
	}))
}

func TestADisconnectedClientDeletesLaterAndAnotherSessionGoesOn(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"disconnected": func(w *recipetest.World, c *zkrecipes.Client) { w.Away(c); idles(5 * time.Second); w.Back() },
		"expired": func(w *recipetest.World, c *zkrecipes.Client) {
			require.True(w.T, w.Srv.Expire(recipetest.SessionID(c)))
		},
		"delete lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete"})
		},
		"reply lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete", After: true})
		},
		"look lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "exists"})
		},
	}, func(t *testing.T, w *recipetest.World, fault func(w *recipetest.World, c *zkrecipes.Client)) {
		c := w.Client(nil)
		idles(almostIdle)
		fault(w, c)
		idles(30 * time.Second)
		require.False(t, w.Has(w.Path))
		require.Zero(t, recipetest.Sum(w.Requests(func() { idles(longIdle) })), "it is forgotten")
	})
}

func TestAJoinBesideTheDeletionOfItsLine(t *testing.T) {
	for _, op := range []string{"exists", "delete"} {
		for _, after := range []bool{false, true} {
			for at := range time.Duration(10) {
				t.Run(fmt.Sprintf("%s %v %d ms", op, after, at), func(t *testing.T) {
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						c, other := w.Client(nil), w.Stranger(nil)
						w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, After: after, For: 4 * time.Millisecond})
						time.Sleep(almostIdle)
						for !w.Busy(op) { // until the deletion is under way
							time.Sleep(time.Millisecond)
						}
						time.Sleep(at * time.Millisecond)
						locks := func(c *zkrecipes.Client) *harness.Call[struct{}] {
							return harness.GoErr(t, func(ctx context.Context) error {
								return zkrecipes.NewMutex(c, w.Path).Do(ctx, func(_ context.Context, l *zkrecipes.Lease) error { w.Stands(l); return nil })
							})
						}
						first, second := locks(c), locks(other)
						first.Get()
						second.Get()
						require.Empty(t, w.Srv.Children(w.Path))
					})
				})
			}
		}
	}
}

func TestPathsThatAreUsedOnceDoNotPileUp(t *testing.T) {
	const perSecond, idle = 5, int(line.IdleLine / time.Second)
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for i := range 4 * idle * perSecond {
			use(t, c, fmt.Sprintf("/orders/%d", i))
			time.Sleep(time.Second / perSecond)
			if i%perSecond == 0 {
				require.LessOrEqual(t, len(w.Srv.Children("/orders")), (idle+5)*perSecond)
			}
		}
		idles(2 * longIdle)
		require.False(t, w.Has("/orders"))
	})
}

// emptyContainers returns the paths of the containers that have no children.
func emptyContainers(srv *zktest.Server) (paths []string) {
	for line := range strings.Lines(srv.Tree()) {
		path, rest, _ := strings.Cut(line, " ")
		if strings.Contains(rest, " container") && len(srv.Children(path)) == 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// Before ZooKeeper 3.10, servers never delete a container that has had no child.
func TestNoContainerStaysForEverAfterACallThatGaveUp(t *testing.T) {
	for recipe, call := range recipetest.Recipes {
		for _, end := range []struct {
			name   string
			fault  zktest.Fault
			closes bool
		}{
			{"the context ends", zktest.Fault{Do: zktest.Delay, For: time.Second}, false},
			{"Close", zktest.Fault{Do: zktest.Delay, For: time.Second}, true},
			{"the reply is lost, the context ends", zktest.Fault{Do: zktest.Drop, After: true}, false},
		} {
			t.Run(recipe+", "+end.name, func(t *testing.T) {
				for fired := true; fired; end.fault.Skip++ { // at each request
					require.Less(t, end.fault.Skip, 100)
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						c := w.Stranger(nil)
						w.Plan.Add(end.fault)
						called := harness.Go(t, func(ctx context.Context) (func() error, error) { return call(ctx, c, "/a/b") })
						synctest.Wait()
						fired = recipetest.Sum(w.Plan.Fired()) > 0
						if end.closes {
							_ = c.Close()
						}
						called.Cancel(nil)
						_, _ = called.Wait()
						_ = c.Close()
						time.Sleep(5 * time.Minute) // a level each minute
						require.Empty(t, emptyContainers(w.Srv), "ended at request %d\n%s", end.fault.Skip, w.Srv.Tree())
					}, zktest.ContainerCheckInterval(time.Minute))
				}
			})
		}
	}
}

// The list of a container may forbid its creator to use it.
func TestAContainerIsCreatedAlthoughItsACLForbidsToDelete(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{ACL: zk.WorldACL(zk.PermAll &^ zk.PermDelete)})
		_, err := zkrecipes.NewGroup(c, "/a/b").Join(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, w.Srv.Children("/a/b"), 1)
	})
}
