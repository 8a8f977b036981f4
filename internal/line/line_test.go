package line_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A line that is deleted, reaped or replaced.

func TestRealLineDeletedUnderWaitersNeverHasTwoHolders(t *testing.T) {
	// The kinds of the holder and then of the waiters. The lock that is taken after
	// the deletion is of the first kind.
	for name, rounds := range map[string][]string{
		"mutexes": {"mmmm", "mmmm", "mmmm", "mmmm", "mmmm"}, "writers and readers": {"wrwrw", "rrwrw", "wrwrw", "rrwrw", "wrwrw", "rrwrw"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recipetest.Rig{T: t, Ctx: harness.Within(t, 2*time.Minute), Path: harness.NewPath(t), Raw: harness.Raw(t)}
			next := kindsOfLock[rune(rounds[0][0])](recipetest.Dial(t, nil), r.Path)
			for _, kinds := range rounds {
				var calls []*harness.Call[*zkrecipes.Lease]
				for i, kind := range kinds {
					calls = append(calls, recipetest.Later(t, kindsOfLock[kind](recipetest.Dial(t, nil), r.Path).Lock))
					r.Queued(i + 1)
				}
				holder := calls[0].Get()
				work := holder.Context(r.Ctx)
				for { // as zkCli's deleteall deletes a tree
					for _, name := range harness.Children(t, r.Raw, r.Path) {
						r.Raw.Delete(r.Path+"/"+name, -1)
					}
					if err := r.Raw.Delete(r.Path, -1); err != zk.ErrNotEmpty {
						require.Contains(t, []error{nil, zk.ErrNoNode}, err)
						break
					}
				}
				l := recipetest.Held(t, next.Lock) // on a new line, whose sequence numbers start at 0
				_, err := holder.Commit(r.Ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
				require.Greater(t, l.Token(), holder.Token())
				for _, a := range calls[1:] {
					if b, err := a.Wait(); err == nil {
						_, err = b.Commit(r.Ctx)
						require.ErrorIs(t, err, zkrecipes.ErrLost, "two hold at the same time")
					} else {
						require.ErrorIs(t, err, zkrecipes.ErrEvicted)
					}
				}
				require.NoError(t, l.Release())
				r.Queued(0)
			}
		})
	}
}

// The number of retries is bounded.
func TestContainerReapedBeforeTheJoinIsCreatedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		op, path, reaped string
		times            int
		err              error
	}{
		"once":                        {recipetest.OpJoin, "/a/line", "/a/line", 1, nil},
		"its parent, before the line": {recipetest.OpMakeContainer, "/b/line", "/b", 1, nil},
		"for ever":                    {recipetest.OpJoin, "/c/line", "/c/line", 1000, zkrecipes.ErrContended},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				raw := w.Bare()
				harness.MakeParents(t, raw, tt.path[:2])
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: tt.op, Path: tt.path + "*", For: time.Second, Times: tt.times})
				a := recipetest.Later(t, w.Ours(w.Stranger(nil), tt.path).Lock)
				for range tt.times {
					if synctest.Wait(); !a.Waiting() {
						break
					}
					raw.Delete(tt.reaped, -1)
					time.Sleep(time.Second)
				}
				_, err := a.Wait()
				require.ErrorIs(t, err, tt.err)
			})
		})
	}
}

func TestDataSetBetweenTheFirstReadAndTheFirstJoinIsKept(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		raw := w.Bare()
		harness.MakeParents(t, raw, w.Path)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
		a := w.Waits(w.Stranger(nil))
		_, err := raw.Set(w.Path, []byte("mine"), 0)
		require.NoError(t, err)
		_, err = a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.Equal(t, "mine", w.Text(w.Path))
		require.Empty(t, w.Line())
	})
}

func TestALineThatWasIdleIsReadAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		time.Sleep(line.IdleLine)
		require.NoError(t, w.Bare().Delete(w.Path, -1)) // reaped, and now somebody else's znode
		_, err := w.Bare().Create(w.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.ErrorIs(t, m.Do(t.Context(), recipetest.Nothing), zkrecipes.ErrPathInUse)
		require.Equal(t, "mine", w.Text(w.Path))
	})
}

// The servers delete an empty line, and its parents if the library created them as
// containers, but never a line with a place in it. The next Lock creates the line
// again.
func TestRealLineIsReapedWhenIdle(t *testing.T) {
	t.Parallel()
	const often = 500 * time.Millisecond
	servers := []string{harness.OwnServer(t, zkserver.Config{ReapEvery: often}, zktest.ContainerCheckInterval(often))}
	ctx, path := harness.Within(t, 2*time.Minute), harness.NewPath(t)
	c, conn := recipetest.DialTo(t, servers, nil), harness.RawTo(t, servers)
	gone := func(path string) {
		harness.Eventually(t, path+" gone", func() bool { exists, _, err := conn.Exists(path); return err == nil && !exists })
	}
	held := recipetest.LockOn(t, zkrecipes.NewMutex(c, path+"/held"))
	idle := zkrecipes.NewMutex(c, path+"/idle/line")
	for range 2 { // the second time, the client knows the line
		require.NoError(t, idle.Do(ctx, recipetest.Nothing))
		gone(path + "/idle/line")
		gone(path + "/idle")
	}
	_, err := held.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release())
	gone(path)
}
