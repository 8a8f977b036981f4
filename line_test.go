package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// What others do to the line. The names say the row.

// The successor of an evicted place has the same predecessor then; both hear it
// leave, and one of them is in nobody's line any more.
func TestB22AnEvictedWaiterIsNotGrantedByItsPredecessorsFarewell(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		for range 10 {
			holder := held(t, r.rival.Lock)
			attempts := []*attempt{r.joins(2, r.m), r.joins(3, r.theirs(r.c, r.path))}
			name := r.inLine()[1].name
			var wg sync.WaitGroup
			wg.Go(func() { r.raw.Delete(r.path+"/"+name, -1) })
			wg.Go(func() { holder.Release() })
			wg.Wait()
			for _, a := range attempts {
				l, err := a.wait()
				if err != nil {
					require.ErrorIs(t, err, ErrEvicted)
					require.Same(t, attempts[0], a)
					continue
				}
				if _, err := l.Commit(r.ctx); err != nil { // granted before it was evicted
					require.ErrorIs(t, err, ErrLost)
					require.Same(t, attempts[0], a)
				}
				l.Release()
			}
			r.queued(0)
		}
	})
}

func TestB23LineIsDeletedAndRecreatedUnderWaiters(t *testing.T) {
	r := newRig(t, nil)
	for range 5 {
		holder := lockOn(t, NewMutex(dial(t, nil), r.path))
		ctx := holder.Context(r.ctx)
		var attempts []*attempt
		for i := range 3 {
			attempts = append(attempts, lockLater(t, NewMutex(dial(t, nil), r.path)))
			r.queued(i + 2)
		}
		// As zkCli's deleteall does it.
		for {
			for _, name := range children(t, r.raw, r.path) {
				r.raw.Delete(r.path+"/"+name, -1)
			}
			if err := r.raw.Delete(r.path, -1); err != zk.ErrNotEmpty {
				require.Contains(t, []error{nil, zk.ErrNoNode}, err)
				break
			}
		}
		l := r.lock() // on a new line, with low numbers
		_, err := holder.Commit(r.ctx)
		require.ErrorIs(t, err, ErrLost)
		<-ctx.Done()
		require.Greater(t, l.Token(), holder.Token())
		for _, a := range attempts {
			if b, err := a.wait(); err == nil {
				_, err = b.Commit(r.ctx)
				require.ErrorIs(t, err, ErrLost)
			} else {
				require.ErrorIs(t, err, ErrEvicted)
			}
		}
		require.NoError(t, l.Release())
		r.queued(0)
	}
}

func TestB24ContainerIsReapedBeforeTheJoin(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		t.Run("once", func(t *testing.T) {
			rule := r.p.on(opJoin, 1, hold)
			a := later(t, r.m.Lock)
			r.p.await(rule)
			require.NoError(t, r.raw.Delete(r.path, -1))
			rule.release()
			require.NoError(t, a.granted().Release())
			r.p.off(rule)
		})
		t.Run("its parent, before it", func(t *testing.T) {
			path := newPath(t)
			makeParents(t, r.raw, path)
			rule := r.p.on("createContainer", 1, hold)
			a := later(t, r.ours(r.c, path+"/line").Lock)
			r.p.await(rule)
			require.NoError(t, r.raw.Delete(path, -1))
			rule.release()
			require.NoError(t, a.granted().Release())
			r.p.off(rule)
		})
		t.Run("for ever", func(t *testing.T) {
			// The retry is bounded.
			path := newPath(t)
			rule := r.p.on(opJoin, 0, hold)
			rule.before = func() { r.raw.Delete(path, -1) }
			rule.release()
			_, err := r.ours(r.c, path).Lock(r.ctx)
			require.ErrorIs(t, err, errContended)
			r.p.off(rule)
		})
	})
}

var strangers = []string{
	"x", "_c_x", "_c_", "lock-", "lock-1", "lock-00000000x1", "lock-12345678901234567890", "-", "__READ", "zürich-ключ-鍵",
	"lock-０１２３４５６７８９", "_c_" + strings.Repeat("0", 400), "LOCK-0000000001", "0000000001", "lock-+000000001", "ready",
	"__lock__", "__rlock__abc", "lock-0000000001-more", "lock-9999999999",
}

func TestB25StrangersInTheLineAreIgnored(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		holder := held(t, r.m.Lock)
		for _, name := range strangers {
			_, err := r.raw.Create(r.path+"/"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		a := r.joins(2+len(strangers), r.rival)
		_, err := r.rival.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrLocked)
		cs, err := r.m.Contenders(r.ctx)
		require.NoError(t, err)
		require.Len(t, cs, 2)
		require.NoError(t, holder.Release())
		require.NoError(t, a.granted().Release())
		l, err := r.m.TryLock(r.ctx) // only strangers: free
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.Len(t, children(t, r.raw, r.path), len(strangers))
	})
}

func TestB27DataSetOnAForeignPredecessorIsNoFarewell(t *testing.T) {
	r := newRig(t, nil)
	for _, prefix := range []string{
		"lock-", "_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-lock-", "0f0e0d0c0b0a09080706050403020100__lock__",
	} {
		ahead := r.byHand(prefix)
		r.p.reset()
		a := lockLater(t, r.m)
		r.queued(2)
		r.asleep(1)
		for i := range 3 {
			r.p.reset()
			_, err := r.raw.Set(ahead, []byte(fmt.Sprint(i)), -1)
			require.NoError(t, err)
			eventually(t, "looked again", func() bool { return r.p.countOf("getData") == 1 && r.c.idle() })
			require.True(t, a.waiting())
		}
		require.NoError(t, r.raw.Delete(ahead, -1))
		require.NoError(t, a.granted().Release())
	}
}

func TestB47DataOfAPlaceIsItsOwnersAlone(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	a := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(2)
	for name, conn := range map[string]*zk.Conn{"an operator": r.raw, "another session": rawConn(dial(t, nil))} {
		_, err := conn.Set(l.Check().Path, []byte("__REVOKE__"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
	}
	require.True(t, a.waiting())
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	require.NoError(t, a.granted().Release())
}

func rawConn(c *Client) *zk.Conn {
	s, _ := c.session()
	return s.conn
}

func TestB48ADataNodeIsALineAndKeepsItsData(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		path := newPath(t)
		makeParents(t, r.raw, path)
		stat, err := r.raw.Set(path, []byte(`{"mine": true}`), -1)
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
						if err == nil && Token(stat.Czxid) != l.Token() {
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

func TestB64DataSetBetweenTheLookAndTheFirstJoinIsKept(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		path := newPath(t)
		makeParents(t, r.raw, path)
		rule := r.p.on(opJoin, 1, hold)
		a := later(t, r.ours(r.c, path).Lock)
		r.p.await(rule)
		_, err := r.raw.Set(path, []byte("mine"), 0)
		require.NoError(t, err)
		rule.release()
		l := a.granted()
		data, stat, err := r.raw.Get(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
		require.EqualValues(t, 1, stat.Version)
		require.NoError(t, l.Release())
	})
}

func TestB40MutexAndRWLockOnOnePath(t *testing.T) {
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

func TestOurNamesSortForCuratorAsForUs(t *testing.T) {
	// Curator sorts by what follows the last "lock-".
	numbers := []int32{0, 1, 9, 10, 99, 1_000_000_000, 2_147_000_000}
	var names []string
	for _, n := range numbers {
		names = append(names, fmt.Sprintf("_c_%s-lock-%010d", newUUID(), n))
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndex(a, "lock-")+5:], b[strings.LastIndex(b, "lock-")+5:])
	})
	for i, m := range members(names, lockKinds) {
		require.Equal(t, numbers[i], m.number)
		require.True(t, i == 0 || members(names, lockKinds)[i-1].compare(m) < 0)
		require.True(t, m.signals())
	}
}
