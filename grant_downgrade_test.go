package zkrecipes

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Downgrade, from writer to reader. Its faults are in grant_downgrade_faults_test.go.

const opDowngrade = "multi(create,delete)"

// downgrades calls Downgrade in the background.
func (r *rwRig) downgrades(ctx context.Context, l *Lease) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.w.Downgrade(ctx, l) }()
	return done
}

// reads requires that l holds as a reader, and that its place is the only grant.
func (r *rwRig) reads(l *Lease) {
	r.t.Helper()
	require.NoError(r.t, l.Err())
	require.Contains(r.t, l.Check().Path, "-__READ__")
	_, err := l.Commit(r.ctx)
	require.NoError(r.t, err)
	r.holds(1)
	_, err = r.w.Lock(l.Reentrant(r.ctx))
	require.ErrorIs(r.t, err, ErrUpgrade)
}

// holds waits until the session keeps exactly n grants.
func (r *rwRig) holds(n int) {
	r.t.Helper()
	harness.Eventually(r.t, "grants of the session", func() bool {
		s, _ := r.c.client.Session()
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return len(s.Grants) == n
	})
}

func TestA24DowngradeKeepsTheWritersPlace(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	work, token, guard := l.Context(r.ctx), l.Token(), l.Check()
	before := r.inLine()[0]
	waiting := r.joins(2, r.another().Lock)
	behind := r.inLine()[1].Name
	r.p.Reset()
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	require.NoError(t, r.w.Downgrade(r.ctx, l), "it is a reader already")
	require.Equal(t, map[string]int{opDowngrade: 1}, r.p.Count())

	line := r.inLine()
	require.Len(t, line, 2)
	require.Equal(t, "_c_"+before.UUID+"-__READ__"+before.Name[strings.Index(before.Name, "__WRIT__")+8:], line[0].Name)
	require.Equal(t, before.Number, line[0].Number)
	require.Equal(t, behind, line[1].Name)
	require.Equal(t, token, l.Token(), "a new token would exceed that of the writer behind")
	require.NoError(t, work.Err())
	cs, err := r.w.Contenders(r.ctx)
	require.NoError(t, err)
	require.True(t, cs[0].Held && cs[0].Reader)
	require.False(t, cs[1].Held)

	_, err = r.raw.Multi(guard)
	require.ErrorIs(t, err, zk.ErrNoNode, "the writer's Check")
	_, err = r.raw.Multi(l.Check())
	require.NoError(t, err)
	r.reads(l)
	_, err = r.w.Lock(work)
	require.ErrorIs(t, err, ErrUpgrade)
	require.True(t, waiting.Waiting())

	r.p.Reset()
	require.NoError(t, l.Release())
	require.Equal(t, map[string]int{opReadRelease: 1}, r.p.Count())
	require.ErrorIs(t, context.Cause(work), ErrReleased)
	next := waiting.Get()
	require.Greater(t, next.Token(), token)
	require.NoError(t, next.Release())
}

func TestRealA24ReadersBehindGoAndNoWriterSlipsIn(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	reader := r.joins(2, r.another().RLock)
	same := r.joins(3, r.w.RLock) // in the holder's session
	writer := r.joins(4, r.another().Lock)
	last := r.joins(5, r.another().RLock)
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	a, b := reader.Get(), same.Get()
	require.True(t, writer.Waiting())
	require.True(t, last.Waiting(), "a writer is ahead of it")
	for _, l := range []*Lease{a, l, b} {
		_, err := l.Commit(r.ctx)
		require.NoError(t, err)
		require.True(t, writer.Waiting())
		require.NoError(t, l.Release())
	}
	w := writer.Get()
	require.True(t, last.Waiting())
	require.NoError(t, w.Release())
	require.NoError(t, last.Get().Release())
}

func TestA24NobodyWritesBetweenAWriterAndItsReader(t *testing.T) {
	r := newRWRig(t, nil)
	n := 0 // guarded by the lock; the race detector watches it
	var wg sync.WaitGroup
	for i := range 6 {
		w := r.w
		if i%2 == 0 {
			w = r.another()
		}
		wg.Go(func() {
			for range 30 {
				if i == 5 {
					if err := w.RDo(r.ctx, func(context.Context, *Lease) error { _ = n; return nil }); err != nil {
						t.Error(err)
					}
					continue
				}
				err := w.Do(r.ctx, func(ctx context.Context, l *Lease) error {
					n++
					mine := n
					if err := w.Downgrade(ctx, l); err != nil {
						return err
					}
					_, err := l.Commit(ctx)
					if n != mine {
						t.Error("another writer came in between")
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 150, n)
	r.queued(0)
	r.holds(0)
}

func TestA24DowngradeWithReentriesOpenIsAnError(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	for _, enter := range []func(context.Context) (*Lease, error){r.w.Lock, r.w.RLock} {
		again, err := enter(l.Reentrant(r.ctx))
		require.NoError(t, err)
		r.p.Reset()
		for _, l := range []*Lease{l, again} {
			require.EqualError(t, r.w.Downgrade(r.ctx, l), "zkrecipes: downgrade "+r.path+": re-entries are open")
		}
		require.Empty(t, r.p.Count())
		require.NoError(t, again.Release())
		require.ErrorIs(t, r.w.Downgrade(r.ctx, again), ErrReleased, "although l still holds")
	}
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	r.reads(l)
	read, err := r.w.RLock(l.Reentrant(r.ctx))
	require.NoError(t, err)
	require.NoError(t, r.w.Downgrade(r.ctx, read), "it is a reader already")
	require.NoError(t, l.Release())
	require.NoError(t, read.Err())
	require.NoError(t, read.Release())
	r.queued(0)
}

// hooked is a context that calls f before each use of Done.
type hooked struct {
	context.Context
	f func()
}

func (h hooked) Done() <-chan struct{} {
	h.f()
	return h.Context.Done()
}

func TestA24DowngradeOfALeaseThatIsReleasedMeanwhileLeavesTheOthersAlone(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	again, err := r.w.Lock(l.Reentrant(r.ctx))
	require.NoError(t, err)
	ctx := hooked{r.ctx, func() { l.Release() }} // after Downgrade has found l held
	require.ErrorIs(t, r.w.Downgrade(ctx, l), ErrReleased)
	require.Contains(t, again.Check().Path, "-__WRIT__", "the other lease still writes")
	_, err = r.another().TryRLock(r.ctx)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, again.Release())
}

func TestA24DowngradeOfAForeignOrEndedLeaseIsAnError(t *testing.T) {
	r := newRWRig(t, nil)
	elsewhere := NewRWLock(r.c, r.path+"-elsewhere")
	mutex := NewMutex(r.c, r.path+"-mutex")
	a, b, c := held(t, elsewhere.Lock), held(t, r.another().Lock), lockOn(t, mutex)
	r.p.Reset()
	for name, l := range map[string]*Lease{"nil": nil, "of another path": a, "of another client": b} {
		require.EqualError(t, r.w.Downgrade(r.ctx, l), "zkrecipes: downgrade "+r.path+": not a lease of this lock", name)
	}
	require.ErrorContains(t, NewRWLock(r.c, mutex.line.Path).Downgrade(r.ctx, c), "not a lease of this lock", "a mutex's lease")
	require.Empty(t, r.p.Count())
	require.NoError(t, NewRWLock(r.c, elsewhere.line.Path).Downgrade(r.ctx, a), "a lock is identified by its path")
	for _, l := range []*Lease{a, b, c} {
		require.NoError(t, l.Release())
	}
	l := held(t, r.w.RLock)
	r.p.Reset()
	require.NoError(t, r.w.Downgrade(r.ctx, l), "a reader's already")
	require.Empty(t, r.p.Count())
	require.NoError(t, l.Release())
	require.ErrorIs(t, r.w.Downgrade(r.ctx, l), ErrReleased)

	l = held(t, r.w.Lock)
	require.NoError(t, l.Release())
	err := r.w.Downgrade(r.ctx, l)
	require.EqualError(t, err, "zkrecipes: downgrade "+r.path+": lease released")
	l = held(t, r.w.Lock)
	work := l.Context(r.ctx)
	r.p.Expire()
	harness.Cause(t, work)
	require.ErrorIs(t, r.w.Downgrade(r.ctx, l), ErrLost)
	require.ErrorIs(t, l.Release(), ErrLost)
}

// Downgrade deletes the writer's place. The event of a watch on that place does not
// concern the reader's place.
func TestDowngradeOfAWatchedPlaceKeepsTheLease(t *testing.T) {
	r := newRWRig(t, nil)
	for range 20 {
		l := held(t, r.w.Lock)
		l.handle.Grant.WatchPlace()
		require.Len(t, watched(r.c), 1)
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		harness.Eventually(t, "the watch fires", func() bool { return len(watched(r.c)) == 0 })
		<-r.c.client.Tasks.Done()
		r.reads(l)
		require.NoError(t, l.Release())
	}
}

func TestCommitsDuringADowngradeAreCarriedOutOnce(t *testing.T) {
	r := newRWRig(t, nil)
	data := r.path + "-data"
	_, err := r.raw.Create(data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 15 {
		l := held(t, r.w.Lock)
		_, before, err := r.raw.Get(data)
		require.NoError(t, err)
		var succeeded atomic.Int32
		var wg sync.WaitGroup
		over := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					if _, err := l.Commit(r.ctx, OpSet(data, nil, -1)); err != nil {
						t.Error(err)
						return
					}
					succeeded.Add(1)
				}
			})
		}
		harness.Eventually(t, "committing", func() bool { return succeeded.Load() > 3 })
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		at := succeeded.Load()
		harness.Eventually(t, "committing", func() bool { return succeeded.Load() > at+3 })
		close(over)
		wg.Wait()
		_, after, err := r.raw.Get(data)
		require.NoError(t, err)
		require.EqualValues(t, after.Version-before.Version, succeeded.Load())
		require.NoError(t, l.Release())
	}
}

func TestConcurrentDowngradesSendOneRequest(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	r.p.Reset()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := r.w.Downgrade(r.ctx, l); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[string]int{opDowngrade: 1}, r.p.Count())
	require.NoError(t, l.Release())
}

// After a reconnect, events of the old place do not concern the place that replaced
// it.
func TestADowngradedLeaseOutlivesReconnects(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	writer := r.joins(2, r.another().Lock)
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	s, _ := r.c.client.Session()
	for range 5 {
		r.p.Drop()
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		require.NoError(t, s.Ready(r.ctx))
		r.reads(l)
		require.True(t, writer.Waiting())
	}
	require.NoError(t, l.Release())
	require.NoError(t, writer.Get().Release())
}

// Lease.Downgrade is RWLock.Downgrade for a caller that has the lease alone.
func TestALeaseDowngradesItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		lock := NewRWLock(c, "/rw")
		l := held(t, lock.Lock)
		waiting := later(t, NewRWLock(w.stranger(nil), "/rw").RLock)
		synctest.Wait()
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Downgrade(t.Context()))
		require.Contains(t, l.Check().Path, "-__READ__")
		reader := waiting.Get()
		require.NoError(t, reader.Downgrade(t.Context()), "it is a reader already")

		again, err := lock.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Downgrade(t.Context()), ErrReleased)
		require.NoError(t, again.Release())
		var none context.Context
		require.EqualError(t, reader.Downgrade(none), "zkrecipes: downgrade /rw: nil context")
		require.NoError(t, reader.Release())

		lost := held(t, lock.Lock)
		w.expire(c)
		require.ErrorIs(t, lost.Downgrade(t.Context()), ErrLost)
	})
}

func TestALeaseOfAnotherRecipeCannotBeDowngraded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		lease := held(t, NewMutex(c, "/m").Lock)
		slot, err := NewSemaphore(c, "/s", 1).Acquire(t.Context())
		require.NoError(t, err)
		term, err := NewElection(c, "/e").Campaign(t.Context(), nil)
		require.NoError(t, err)
		for _, l := range []*Lease{lease, slot.lease, term.lease} {
			require.EqualError(t, l.Downgrade(t.Context()), "zkrecipes: downgrade "+l.Path()+": not a lease of an RWLock")
			require.NoError(t, l.Err())
			require.ErrorContains(t, NewRWLock(c, l.Path()).Downgrade(t.Context(), l), "not a lease of this lock")
		}
	})
}
