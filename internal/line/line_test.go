package line_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A line that is deleted or reaped, and znodes that other programs put into it.

func TestRealB23LineDeletedUnderWaitersNeverHasTwoHolders(t *testing.T) {
	// The kinds of the holder and then of the waiters. The lock that is taken after
	// the deletion is of the first kind.
	for name, rounds := range map[string][]string{
		"mutexes": {"mmmm", "mmmm", "mmmm", "mmmm", "mmmm"}, "writers and readers": {"wrwrw", "rrwrw", "wrwrw", "rrwrw", "wrwrw", "rrwrw"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recipetest.Rig{T: t, Ctx: harness.Within(t, 30*time.Second), Path: harness.NewPath(t), Raw: harness.Raw(t)}
			next := kindsOfLock[rune(rounds[0][0])](recipetest.Dial(t, nil), r.Path)
			for _, kinds := range rounds {
				var holder *zkrecipes.Lease
				var waiters []*harness.Call[*zkrecipes.Lease]
				for i, kind := range kinds {
					a := recipetest.Later(t, kindsOfLock[kind](recipetest.Dial(t, nil), r.Path).Lock)
					r.Queued(i + 1)
					if i == 0 {
						holder = a.Get()
					} else {
						waiters = append(waiters, a)
					}
				}
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
				for _, a := range waiters {
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

func TestB24ContainerReapedBeforeTheJoinIsCreatedAgain(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		t.Run("once", func(t *testing.T) {
			rule := r.P.On(recipetest.OpJoin, 1, harness.Hold)
			a := recipetest.Later(t, r.M.Lock)
			r.P.Await(rule)
			require.NoError(t, r.Raw.Delete(r.Path, -1))
			rule.Release()
			require.NoError(t, a.Get().Release())
			r.P.Off(rule)
		})
		t.Run("its parent, before the line", func(t *testing.T) {
			path := harness.NewPath(t)
			harness.MakeParents(t, r.Raw, path)
			rule := r.P.On("createContainer", 1, harness.Hold)
			a := recipetest.Later(t, r.Ours(r.C, path+"/line").Lock)
			r.P.Await(rule)
			require.NoError(t, r.Raw.Delete(path, -1))
			rule.Release()
			require.NoError(t, a.Get().Release())
			r.P.Off(rule)
		})
		t.Run("for ever", func(t *testing.T) {
			// The number of retries is bounded.
			path := harness.NewPath(t)
			rule := r.P.On(recipetest.OpJoin, 0, harness.Hold)
			rule.Before = func() { r.Raw.Delete(path, -1) }
			rule.Release()
			_, err := r.Ours(r.C, path).Lock(r.Ctx)
			require.ErrorIs(t, err, zkconn.ErrContended)
			r.P.Off(rule)
		})
	})
}

// foreignNames are names that no place has.
var foreignNames = []string{
	"x", "_c_x", "_c_", "lock-", "lock-1", "lock-00000000x1", "lock-12345678901234567890", "-", "__READ", "zürich-ключ-鍵",
	"lock-０１２３４５６７８９", "_c_" + strings.Repeat("0", 400), "LOCK-0000000001", "0000000001", "lock-+000000001", "ready",
	"__lock__", "__rlock__abc", "lock-0000000001-more", "lock-9999999999",
}

func TestB25ForeignChildrenOfALineAreIgnored(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		holder := recipetest.Held(t, r.M.Lock)
		for _, name := range foreignNames {
			_, err := r.Raw.Create(r.Path+"/"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		a := r.Joins(2+len(foreignNames), r.Rival)
		_, err := r.Rival.TryLock(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		cs, err := r.M.Contenders(r.Ctx)
		require.NoError(t, err)
		require.Len(t, cs, 2)
		require.NoError(t, holder.Release())
		require.NoError(t, a.Get().Release())
		l, err := r.M.TryLock(r.Ctx) // free, as no child is a place
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.Len(t, harness.Children(t, r.Raw, r.Path), len(foreignNames))
	})
}

// rawConn returns the go-zookeeper Conn of a client's session.
func rawConn(c *zkrecipes.Client) *zk.Conn {
	s, _ := recipetest.Core(c).Session()
	return s.Inspect().Conn
}

func TestB48ADataNodeServesAsALineAndKeepsItsData(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		path := harness.NewPath(t)
		harness.MakeParents(t, r.Raw, path)
		stat, err := recipetest.Insider(t, r.Raw).Set(path, []byte(`{"mine": true}`), -1)
		require.NoError(t, err)
		m, other := r.Ours(r.C, path), r.Theirs(recipetest.Dial(t, nil), path)
		var wg sync.WaitGroup
		var n atomic.Int32
		for _, m := range []recipetest.Locker{m, other} {
			for range 10 {
				wg.Go(func() {
					if err := m.Do(r.Ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
						n.Add(1)
						_, stat, err := l.Get(ctx, l.Check().Path)
						if err == nil && recipetest.NewToken(stat.Czxid, 0) != l.Token() {
							err = fmt.Errorf("token %d, czxid %d", l.Token(), stat.Czxid)
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 20, n.Load())
		l, err := m.TryLock(r.Ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		data, after, err := r.Raw.Get(path)
		require.NoError(t, err)
		require.Equal(t, `{"mine": true}`, string(data))
		require.Equal(t, stat.Version, after.Version)
	})
}

func TestB64DataSetBetweenTheFirstReadAndTheFirstJoinIsKept(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		path := harness.NewPath(t)
		harness.MakeParents(t, r.Raw, path)
		rule := r.P.On(recipetest.OpJoin, 1, harness.Hold)
		a := recipetest.Later(t, r.Ours(r.C, path).Lock)
		r.P.Await(rule)
		_, err := recipetest.Insider(t, r.Raw).Set(path, []byte("mine"), 0)
		require.NoError(t, err)
		rule.Release()
		l := a.Get()
		data, stat, err := r.Raw.Get(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
		require.EqualValues(t, 1, stat.Version)
		require.NoError(t, l.Release())
	})
}

func TestB40MutexRefusesTheLineOfAnRWLock(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	for _, prefix := range []string{"_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-__READ__", "_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-__WRIT__"} {
		name := r.ByHand(prefix)
		_, err := r.M.Lock(r.Ctx)
		require.ErrorContains(t, err, "another recipe uses this path")
		_, err = r.M.TryLock(r.Ctx)
		require.ErrorContains(t, err, "another recipe uses this path")
		require.NoError(t, r.Raw.Delete(name, -1))
		r.Queued(0)
	}
}

func TestALineThatWasIdleIsReadAgain(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	recipetest.LineOf(r.M).UsedAt(time.Now().Add(-line.IdleLine))
	require.NoError(t, r.Raw.Delete(r.Path, -1)) // reaped, and now somebody else's znode
	_, err := r.Raw.Create(r.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing))
	data, _, err := r.Raw.Get(r.Path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

// The servers delete an empty line, and its parents if the library created them as
// containers, but never a line with a place in it. The next Lock creates the line
// again.
func TestRealA04LineIsReapedWhenIdle(t *testing.T) {
	t.Parallel()
	const often = 500 * time.Millisecond
	servers := []string{harness.OwnServer(t, zkserver.Config{ReapEvery: often}, zktest.ContainerCheckInterval(often))}
	ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
	c, conn := recipetest.DialTo(t, servers, nil), harness.RawTo(t, servers)
	gone := func(path string) {
		exists, _, event, err := conn.ExistsW(path)
		require.NoError(t, err)
		if !exists {
			return
		}
		select {
		case e := <-event:
			require.Equal(t, zk.EventNodeDeleted, e.Type)
		case <-ctx.Done():
			require.FailNow(t, "still there", path)
		}
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
