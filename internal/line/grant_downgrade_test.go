package line_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Downgrade, from writer to reader. Its faults are in grant_downgrade_faults_test.go.

func TestA24DowngradeKeepsTheWritersPlace(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	work, token, guard := l.Context(r.Ctx), l.Token(), l.Check()
	before := r.InLine()[0]
	waiting := r.Joins(2, r.Another().Lock)
	behind := r.InLine()[1].Name
	r.P.Reset()
	require.NoError(t, r.W.Downgrade(r.Ctx, l))
	require.NoError(t, r.W.Downgrade(r.Ctx, l), "it is a reader already")
	require.Equal(t, 1, recipetest.Sum(r.P.Count()))

	line := r.InLine()
	require.Len(t, line, 2)
	require.Equal(t, "_c_"+before.UUID+"-__READ__"+before.Name[strings.Index(before.Name, "__WRIT__")+8:], line[0].Name)
	require.Equal(t, before.Number, line[0].Number)
	require.Equal(t, behind, line[1].Name)
	require.Equal(t, token, l.Token(), "a new token would exceed that of the writer behind")
	require.NoError(t, work.Err())
	cs, err := r.W.Contenders(r.Ctx)
	require.NoError(t, err)
	require.True(t, cs[0].Held && cs[0].Reader)
	require.False(t, cs[1].Held)

	_, err = r.Raw.Multi(guard)
	require.ErrorIs(t, err, zk.ErrNoNode, "the writer's Check")
	_, err = r.Raw.Multi(l.Check())
	require.NoError(t, err)
	r.Reads(l)
	_, err = r.W.Lock(work)
	require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
	require.True(t, waiting.Waiting())

	r.P.Reset()
	require.NoError(t, l.Release())
	require.Equal(t, 1, r.P.CountOf(recipetest.OpReadRelease))
	require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
	next := waiting.Get()
	require.Greater(t, next.Token(), token)
	require.NoError(t, next.Release())
}

func TestRealA24ReadersBehindGoAndNoWriterSlipsIn(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	reader := r.Joins(2, r.Another().RLock)
	same := r.Joins(3, r.W.RLock) // in the holder's session
	writer := r.Joins(4, r.Another().Lock)
	last := r.Joins(5, r.Another().RLock)
	require.NoError(t, r.W.Downgrade(r.Ctx, l))
	a, b := reader.Get(), same.Get()
	require.True(t, writer.Waiting())
	require.True(t, last.Waiting(), "a writer is ahead of it")
	for _, l := range []*zkrecipes.Lease{a, l, b} {
		_, err := l.Commit(r.Ctx)
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
	r := recipetest.NewRWRig(t, nil)
	n := 0 // guarded by the lock; the race detector watches it
	var wg sync.WaitGroup
	for i := range 6 {
		w := r.W
		if i%2 == 0 {
			w = r.Another()
		}
		wg.Go(func() {
			for range 30 {
				if i == 5 {
					if err := w.RDo(r.Ctx, func(context.Context, *zkrecipes.Lease) error { _ = n; return nil }); err != nil {
						t.Error(err)
					}
					continue
				}
				err := w.Do(r.Ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
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
	r.Queued(0)
	r.Holds(0)
}

func TestA24DowngradeWithReentriesOpenIsAnError(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	for _, enter := range []func(context.Context) (*zkrecipes.Lease, error){r.W.Lock, r.W.RLock} {
		again, err := enter(l.Reentrant(r.Ctx))
		require.NoError(t, err)
		r.P.Reset()
		for _, l := range []*zkrecipes.Lease{l, again} {
			require.EqualError(t, r.W.Downgrade(r.Ctx, l), "zkrecipes: downgrade "+r.Path+": re-entries are open")
		}
		require.Empty(t, r.P.Count())
		require.NoError(t, again.Release())
		require.ErrorIs(t, r.W.Downgrade(r.Ctx, again), zkrecipes.ErrReleased, "although l still holds")
	}
	require.NoError(t, r.W.Downgrade(r.Ctx, l))
	r.Reads(l)
	read, err := r.W.RLock(l.Reentrant(r.Ctx))
	require.NoError(t, err)
	require.NoError(t, r.W.Downgrade(r.Ctx, read), "it is a reader already")
	require.NoError(t, l.Release())
	require.NoError(t, read.Err())
	require.NoError(t, read.Release())
	r.Queued(0)
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
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	again, err := r.W.Lock(l.Reentrant(r.Ctx))
	require.NoError(t, err)
	ctx := hooked{r.Ctx, func() { l.Release() }} // after Downgrade has found l held
	require.ErrorIs(t, r.W.Downgrade(ctx, l), zkrecipes.ErrReleased)
	require.Contains(t, again.Check().Path, "-__WRIT__", "the other lease still writes")
	_, err = r.Another().TryRLock(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	require.NoError(t, again.Release())
}

func TestA24DowngradeOfAForeignOrEndedLeaseIsAnError(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	elsewhere := zkrecipes.NewRWLock(r.C, r.Path+"-elsewhere")
	mutex := zkrecipes.NewMutex(r.C, r.Path+"-mutex")
	a, b, c := recipetest.Held(t, elsewhere.Lock), recipetest.Held(t, r.Another().Lock), recipetest.LockOn(t, mutex)
	r.P.Reset()
	for name, l := range map[string]*zkrecipes.Lease{"nil": nil, "of another path": a, "of another client": b} {
		require.EqualError(t, r.W.Downgrade(r.Ctx, l), "zkrecipes: downgrade "+r.Path+": not a lease of this lock", name)
	}
	require.ErrorContains(t, zkrecipes.NewRWLock(r.C, recipetest.LineOf(mutex).Path).Downgrade(r.Ctx, c), "not a lease of this lock", "a mutex's lease")
	require.Empty(t, r.P.Count())
	require.NoError(t, zkrecipes.NewRWLock(r.C, recipetest.LineOf(elsewhere).Path).Downgrade(r.Ctx, a), "a lock is identified by its path")
	for _, l := range []*zkrecipes.Lease{a, b, c} {
		require.NoError(t, l.Release())
	}
	l := recipetest.Held(t, r.W.RLock)
	r.P.Reset()
	require.NoError(t, r.W.Downgrade(r.Ctx, l), "a reader's already")
	require.Empty(t, r.P.Count())
	require.NoError(t, l.Release())
	require.ErrorIs(t, r.W.Downgrade(r.Ctx, l), zkrecipes.ErrReleased)

	l = recipetest.Held(t, r.W.Lock)
	require.NoError(t, l.Release())
	err := r.W.Downgrade(r.Ctx, l)
	require.EqualError(t, err, "zkrecipes: downgrade "+r.Path+": lease released")
	l = recipetest.Held(t, r.W.Lock)
	work := l.Context(r.Ctx)
	r.P.Expire()
	harness.Cause(t, work)
	require.ErrorIs(t, r.W.Downgrade(r.Ctx, l), zkrecipes.ErrLost)
	require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
}

// Downgrade deletes the writer's place. The event of a watch on that place does not
// concern the reader's place.
func TestDowngradeOfAWatchedPlaceKeepsTheLease(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	for range 20 {
		l := recipetest.Held(t, r.W.Lock)
		recipetest.HandleOf(l).Grant.WatchPlace()
		require.Len(t, recipetest.Watched(r.C), 1)
		require.NoError(t, r.W.Downgrade(r.Ctx, l))
		harness.Eventually(t, "the watch fires", func() bool { return len(recipetest.Watched(r.C)) == 0 })
		<-recipetest.Core(r.C).Tasks.Done()
		r.Reads(l)
		require.NoError(t, l.Release())
	}
}

func TestCommitsDuringADowngradeAreCarriedOutOnce(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	data := r.Path + "-data"
	_, err := r.Raw.Create(data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 15 {
		l := recipetest.Held(t, r.W.Lock)
		_, before, err := r.Raw.Get(data)
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
					if _, err := l.Commit(r.Ctx, zkrecipes.OpSet(data, nil, -1)); err != nil {
						t.Error(err)
						return
					}
					succeeded.Add(1)
				}
			})
		}
		harness.Eventually(t, "committing", func() bool { return succeeded.Load() > 3 })
		require.NoError(t, r.W.Downgrade(r.Ctx, l))
		at := succeeded.Load()
		harness.Eventually(t, "committing", func() bool { return succeeded.Load() > at+3 })
		close(over)
		wg.Wait()
		_, after, err := r.Raw.Get(data)
		require.NoError(t, err)
		require.EqualValues(t, after.Version-before.Version, succeeded.Load())
		require.NoError(t, l.Release())
	}
}

func TestConcurrentDowngradesSendOneRequest(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	r.P.Reset()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := r.W.Downgrade(r.Ctx, l); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, recipetest.Sum(r.P.Count()))
	require.NoError(t, l.Release())
}

// After a reconnect, events of the old place do not concern the place that replaced
// it.
func TestADowngradedLeaseOutlivesReconnects(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	writer := r.Joins(2, r.Another().Lock)
	require.NoError(t, r.W.Downgrade(r.Ctx, l))
	s, _ := recipetest.Core(r.C).Session()
	for range 5 {
		r.P.Drop()
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		require.NoError(t, s.Ready(r.Ctx))
		r.Reads(l)
		require.True(t, writer.Waiting())
	}
	require.NoError(t, l.Release())
	require.NoError(t, writer.Get().Release())
}

// Lease.Downgrade is RWLock.Downgrade for a caller that has the lease alone.
func TestALeaseDowngradesItself(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		lock := zkrecipes.NewRWLock(c, "/rw")
		l := recipetest.Held(t, lock.Lock)
		waiting := recipetest.Later(t, zkrecipes.NewRWLock(w.Stranger(nil), "/rw").RLock)
		synctest.Wait()
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Downgrade(t.Context()))
		require.Contains(t, l.Check().Path, "-__READ__")
		reader := waiting.Get()
		require.NoError(t, reader.Downgrade(t.Context()), "it is a reader already")

		again, err := lock.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Downgrade(t.Context()), zkrecipes.ErrReleased)
		require.NoError(t, again.Release())
		var none context.Context
		require.EqualError(t, reader.Downgrade(none), "zkrecipes: downgrade /rw: nil context")
		require.NoError(t, reader.Release())

		lost := recipetest.Held(t, lock.Lock)
		w.Expire(c)
		require.ErrorIs(t, lost.Downgrade(t.Context()), zkrecipes.ErrLost)
	})
}

func TestALeaseOfAnotherRecipeCannotBeDowngraded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		lease := recipetest.Held(t, zkrecipes.NewMutex(c, "/m").Lock)
		slot, err := zkrecipes.NewSemaphore(c, "/s", 1).Acquire(t.Context())
		require.NoError(t, err)
		term, err := zkrecipes.NewElection(c, "/e").Campaign(t.Context(), nil)
		require.NoError(t, err)
		for _, l := range []*zkrecipes.Lease{lease, recipetest.LeaseOf(slot), recipetest.LeaseOf(term)} {
			require.EqualError(t, l.Downgrade(t.Context()), "zkrecipes: downgrade "+l.Path()+": not a lease of an RWLock")
			require.NoError(t, l.Err())
			require.ErrorContains(t, zkrecipes.NewRWLock(c, l.Path()).Downgrade(t.Context(), l), "not a lease of this lock")
		}
	})
}
