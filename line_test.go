package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
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
			r := &rig{t: t, ctx: harness.Within(t, 30*time.Second), path: harness.NewPath(t), raw: harness.Raw(t)}
			next := kindsOfLock[rune(rounds[0][0])](dial(t, nil), r.path)
			for _, kinds := range rounds {
				var holder *Lease
				var waiters []*harness.Call[*Lease]
				for i, kind := range kinds {
					a := later(t, kindsOfLock[kind](dial(t, nil), r.path).Lock)
					r.queued(i + 1)
					if i == 0 {
						holder = a.Get()
					} else {
						waiters = append(waiters, a)
					}
				}
				work := holder.Context(r.ctx)
				for { // as zkCli's deleteall deletes a tree
					for _, name := range harness.Children(t, r.raw, r.path) {
						r.raw.Delete(r.path+"/"+name, -1)
					}
					if err := r.raw.Delete(r.path, -1); err != zk.ErrNotEmpty {
						require.Contains(t, []error{nil, zk.ErrNoNode}, err)
						break
					}
				}
				l := held(t, next.Lock) // on a new line, whose sequence numbers start at 0
				_, err := holder.Commit(r.ctx)
				require.ErrorIs(t, err, ErrLost)
				require.ErrorIs(t, harness.Cause(t, work), ErrLost)
				require.Greater(t, l.Token(), holder.Token())
				for _, a := range waiters {
					if b, err := a.Wait(); err == nil {
						_, err = b.Commit(r.ctx)
						require.ErrorIs(t, err, ErrLost, "two hold at the same time")
					} else {
						require.ErrorIs(t, err, ErrEvicted)
					}
				}
				require.NoError(t, l.Release())
				r.queued(0)
			}
		})
	}
}

func TestB24ContainerReapedBeforeTheJoinIsCreatedAgain(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		t.Run("once", func(t *testing.T) {
			rule := r.p.On(opJoin, 1, harness.Hold)
			a := later(t, r.m.Lock)
			r.p.Await(rule)
			require.NoError(t, r.raw.Delete(r.path, -1))
			rule.Release()
			require.NoError(t, a.Get().Release())
			r.p.Off(rule)
		})
		t.Run("its parent, before the line", func(t *testing.T) {
			path := harness.NewPath(t)
			harness.MakeParents(t, r.raw, path)
			rule := r.p.On("createContainer", 1, harness.Hold)
			a := later(t, r.ours(r.c, path+"/line").Lock)
			r.p.Await(rule)
			require.NoError(t, r.raw.Delete(path, -1))
			rule.Release()
			require.NoError(t, a.Get().Release())
			r.p.Off(rule)
		})
		t.Run("for ever", func(t *testing.T) {
			// The number of retries is bounded.
			path := harness.NewPath(t)
			rule := r.p.On(opJoin, 0, harness.Hold)
			rule.Before = func() { r.raw.Delete(path, -1) }
			rule.Release()
			_, err := r.ours(r.c, path).Lock(r.ctx)
			require.ErrorIs(t, err, zkconn.ErrContended)
			r.p.Off(rule)
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
	eachSide(t, func(t *testing.T, r *sideRig) {
		holder := held(t, r.m.Lock)
		for _, name := range foreignNames {
			_, err := r.raw.Create(r.path+"/"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		a := r.joins(2+len(foreignNames), r.rival)
		_, err := r.rival.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrLocked)
		cs, err := r.m.Contenders(r.ctx)
		require.NoError(t, err)
		require.Len(t, cs, 2)
		require.NoError(t, holder.Release())
		require.NoError(t, a.Get().Release())
		l, err := r.m.TryLock(r.ctx) // free, as no child is a place
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.Len(t, harness.Children(t, r.raw, r.path), len(foreignNames))
	})
}

// rawConn returns the go-zookeeper Conn of a client's session.
func rawConn(c *Client) *zk.Conn {
	s, _ := c.client.Session()
	return s.Inspect().Conn
}

func TestB48ADataNodeServesAsALineAndKeepsItsData(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		path := harness.NewPath(t)
		harness.MakeParents(t, r.raw, path)
		stat, err := insider(t, r.raw).Set(path, []byte(`{"mine": true}`), -1)
		require.NoError(t, err)
		m, other := r.ours(r.c, path), r.theirs(dial(t, nil), path)
		var wg sync.WaitGroup
		var n atomic.Int32
		for _, m := range []locker{m, other} {
			for range 10 {
				wg.Go(func() {
					if err := m.Do(r.ctx, func(ctx context.Context, l *Lease) error {
						n.Add(1)
						_, stat, err := l.Get(ctx, l.Check().Path)
						if err == nil && newToken(stat.Czxid, 0) != l.Token() {
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
		l, err := m.TryLock(r.ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		data, after, err := r.raw.Get(path)
		require.NoError(t, err)
		require.Equal(t, `{"mine": true}`, string(data))
		require.Equal(t, stat.Version, after.Version)
	})
}

func TestB64DataSetBetweenTheFirstReadAndTheFirstJoinIsKept(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		path := harness.NewPath(t)
		harness.MakeParents(t, r.raw, path)
		rule := r.p.On(opJoin, 1, harness.Hold)
		a := later(t, r.ours(r.c, path).Lock)
		r.p.Await(rule)
		_, err := insider(t, r.raw).Set(path, []byte("mine"), 0)
		require.NoError(t, err)
		rule.Release()
		l := a.Get()
		data, stat, err := r.raw.Get(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
		require.EqualValues(t, 1, stat.Version)
		require.NoError(t, l.Release())
	})
}

func TestB40MutexRefusesTheLineOfAnRWLock(t *testing.T) {
	r := newRig(t, nil)
	for _, prefix := range []string{"_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-__READ__", "_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-__WRIT__"} {
		name := r.byHand(prefix)
		_, err := r.m.Lock(r.ctx)
		require.ErrorContains(t, err, "another recipe uses this path")
		_, err = r.m.TryLock(r.ctx)
		require.ErrorContains(t, err, "another recipe uses this path")
		require.NoError(t, r.raw.Delete(name, -1))
		r.queued(0)
	}
}

func TestALineThatWasIdleIsReadAgain(t *testing.T) {
	r := newRig(t, nil)
	r.m.line.Note(func(s *line.LineState) { s.Used = time.Now().Add(-line.IdleLine) })
	require.NoError(t, r.raw.Delete(r.path, -1)) // reaped, and now somebody else's znode
	_, err := r.raw.Create(r.path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	data, _, err := r.raw.Get(r.path)
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
	c, conn := dialTo(t, servers, nil), harness.RawTo(t, servers)
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
	held := lockOn(t, NewMutex(c, path+"/held"))
	idle := NewMutex(c, path+"/idle/line")
	for range 2 { // the second time, the client knows the line
		require.NoError(t, idle.Do(ctx, nothing))
		gone(path + "/idle/line")
		gone(path + "/idle")
	}
	_, err := held.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release())
	gone(path)
}
