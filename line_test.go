package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// What others do to the line. The names say the row.

func TestB19PredecessorGoneBetweenListAndWatch(t *testing.T) {
	r := newRig(t, nil)
	ahead := r.byHand("lock-")
	watch := r.p.on("getData", 2, hold) // the own place's is the first
	a := lockLater(t, r.m)
	r.p.await(watch)
	require.NoError(t, r.raw.Delete(ahead, -1))
	watch.release()
	require.NoError(t, a.granted().Release())
}

func TestB20AWaiterDiesInTheMiddle(t *testing.T) {
	r := newRig(t, nil)
	first := r.byHand("lock-")
	middle := r.byHand("lock-")
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(3)
	r.asleep(1)
	r.p.reset()
	require.NoError(t, r.raw.Delete(middle, -1))
	eventually(t, "new predecessor", func() bool { return r.p.countOf("getData") == 1 && r.c.idle() })
	require.True(t, a.waiting())
	require.NoError(t, r.raw.Delete(first, -1))
	require.NoError(t, a.granted().Release())
}

func TestB22OwnPlaceIsDeletedByAnOperator(t *testing.T) {
	r := newRig(t, nil)
	t.Run("waiter", func(t *testing.T) {
		ahead := r.byHand("lock-")
		r.p.reset()
		a := lockLater(t, r.m)
		r.queued(2)
		r.asleep(1)
		require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].name, -1))
		_, err := a.wait()
		require.ErrorIs(t, err, ErrEvicted)
		require.NoError(t, r.raw.Delete(ahead, -1))
	})
	t.Run("waiter, before it looks", func(t *testing.T) {
		ahead := r.byHand("lock-")
		list := r.p.on("getChildren2", 1, hold)
		a := lockLater(t, r.m)
		r.p.await(list)
		require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].name, -1))
		list.release()
		_, err := a.wait()
		require.ErrorIs(t, err, ErrEvicted)
		require.NoError(t, r.raw.Delete(ahead, -1))
		r.p.off(list)
	})
	t.Run("holder that came free", func(t *testing.T) {
		c := dial(t, nil)
		l := lockOn(t, NewMutex(c, r.path))
		// It looks after a tenth of the session timeout, and hears of it then.
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		_, err := l.Commit(r.ctx)
		require.ErrorIs(t, err, ErrLost, "the fence knows at once")
		require.ErrorIs(t, l.Err(), ErrLost)
	})
	t.Run("holder that releases", func(t *testing.T) {
		l := lockOn(t, NewMutex(r.c, r.path))
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, l.Release(), ErrLost)
	})
	t.Run("holder that came free, and hears of it", func(t *testing.T) {
		l := lockOn(t, NewMutex(dial(t, nil), r.path))
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		<-l.Context(r.ctx).Done()
		require.ErrorIs(t, l.Release(), ErrLost)
	})
	t.Run("holder that waited", func(t *testing.T) {
		ahead := r.byHand("lock-")
		a := lockLater(t, r.m)
		r.queued(2)
		require.NoError(t, r.raw.Delete(ahead, -1))
		l := a.granted()
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		<-l.Context(r.ctx).Done() // at once
		require.ErrorIs(t, l.Release(), ErrLost)
		r.queued(0)
	})
}

// The successor of an evicted place has the same predecessor then; both hear it
// leave, and one of them is in nobody's line any more.
func TestB22AnEvictedWaiterIsNotGrantedByItsPredecessorsFarewell(t *testing.T) {
	r := newRig(t, nil)
	for range 20 {
		holder := lockOn(t, NewMutex(dial(t, nil), r.path))
		var inside sync.Map
		var attempts []*attempt
		for i := range 2 {
			attempts = append(attempts, lockLater(t, r.m))
			r.queued(i + 2)
		}
		name := r.inLine()[1].name
		var wg sync.WaitGroup
		wg.Go(func() { r.raw.Delete(r.path+"/"+name, -1) })
		wg.Go(func() { holder.Release() })
		wg.Wait()
		for _, a := range attempts {
			l, err := a.wait()
			if err != nil {
				require.ErrorIs(t, err, ErrEvicted)
				continue
			}
			if _, err := l.Commit(r.ctx); err == nil {
				inside.Store(l, true)
			}
			l.Release()
		}
		r.queued(0)
	}
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
	r := newRig(t, nil)
	t.Run("once", func(t *testing.T) {
		rule := r.p.on(opJoin, 1, hold)
		a := lockLater(t, r.m)
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
		a := lockLater(t, NewMutex(r.c, path+"/line"))
		r.p.await(rule)
		require.NoError(t, r.raw.Delete(path, -1))
		rule.release()
		require.NoError(t, a.granted().Release())
		r.p.off(rule)
	})
	t.Run("for ever", func(t *testing.T) {
		// The retry is bounded.
		m := NewMutex(r.c, newPath(t))
		rule := r.p.on(opJoin, 0, hold)
		rule.before = func() { r.raw.Delete(m.line.path, -1) }
		rule.release()
		_, err := m.Lock(r.ctx)
		require.ErrorIs(t, err, errContended)
		r.p.off(rule)
	})
}

var strangers = []string{
	"x", "_c_x", "_c_", "lock-", "lock-1", "lock-00000000x1", "lock-12345678901234567890", "-", "__READ", "zürich-ключ-鍵",
	"lock-０１２３４５６７８９", "_c_" + strings.Repeat("0", 400), "LOCK-0000000001", "0000000001", "lock-+000000001", "ready",
	"__lock__", "__rlock__abc", "lock-0000000001-more", "lock-9999999999",
}

func TestB25StrangersInTheLineAreIgnored(t *testing.T) {
	r := newRig(t, nil)
	holder := r.lock()
	for _, name := range strangers {
		_, err := r.raw.Create(r.path+"/"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, name)
	}
	a := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(2 + len(strangers))
	_, err := r.m.TryLock(r.ctx)
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
	r := newRig(t, nil)
	path := newPath(t)
	makeParents(t, r.raw, path)
	stat, err := r.raw.Set(path, []byte(`{"mine": true}`), -1)
	require.NoError(t, err)
	m, other := NewMutex(r.c, path), NewMutex(dial(t, nil), path)
	var wg sync.WaitGroup
	n := 0
	for _, m := range []*Mutex{m, other} {
		for range 10 {
			wg.Go(func() {
				if err := m.Do(r.ctx, func(ctx context.Context, l *Lease) error {
					n++
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
	require.Equal(t, 20, n)
	l, err := m.TryLock(r.ctx)
	require.NoError(t, err)
	require.NoError(t, l.Release())
	data, after, err := r.raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, `{"mine": true}`, string(data))
	require.Equal(t, stat.Version, after.Version)
}

func TestB64DataSetBetweenTheLookAndTheFirstJoinIsKept(t *testing.T) {
	r := newRig(t, nil)
	path := newPath(t)
	makeParents(t, r.raw, path)
	rule := r.p.on(opJoin, 1, hold)
	a := lockLater(t, NewMutex(r.c, path))
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
}

func TestB28NoPlaceBeyondTheLimitIsGranted(t *testing.T) {
	// The limit is lowered: a real counter takes two thousand million creates.
	r := newRig(t, nil)
	r.c.last = 3
	free := 0
	var err error
	for range 6 {
		var l *Lease
		if l, err = r.m.Lock(r.ctx); err != nil {
			break
		}
		free++
		require.NoError(t, l.Release())
	}
	require.ErrorIs(t, err, ErrExhausted)
	require.Equal(t, 3, free, "numbers 1 to 3; the rig has used 0")
	_, err = r.m.TryLock(r.ctx)
	require.ErrorIs(t, err, ErrExhausted)
	r.queued(0)
	require.NoError(t, r.raw.Delete(r.path, -1))
	require.NoError(t, r.m.Do(r.ctx, nothing), "a new line")
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
	for i, m := range members(names) {
		require.Equal(t, numbers[i], m.number)
		require.True(t, i == 0 || members(names)[i-1].compare(m) < 0)
		require.True(t, m.signals())
	}
}
