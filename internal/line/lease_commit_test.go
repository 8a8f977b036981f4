package line_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Commits that race with evictions, cancellation and lost connections.

func TestCommitThatMeetsAnEvictionReportsSuccessOnlyIfApplied(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	data := r.Path + "-data"
	_, err := r.Raw.Create(data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 15 {
		l := r.Lock()
		recipetest.Core(r.C).Tasks.Start(recipetest.HandleOf(l).Grant.WatchPlace) // so that the eviction is noticed at once
		// Re-entries and contexts slow down the end of the grant.
		for range 4 {
			again, err := r.M.Lock(l.Reentrant(r.Ctx))
			require.NoError(t, err)
			for range 200 {
				again.Context(r.Ctx)
			}
		}
		harness.Eventually(t, "watched", func() bool { return recipetest.WatchesOf(r.C) == 1 && recipetest.Idle(r.C) })
		_, before, err := r.Raw.Get(data)
		require.NoError(t, err)
		var committed atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					_, err := l.Commit(r.Ctx, zkrecipes.OpSet(data, nil, -1))
					if err != nil {
						if !errors.Is(err, zkrecipes.ErrLost) {
							t.Error(err)
						}
						return
					}
					committed.Add(1)
				}
			})
		}
		harness.Eventually(t, "committing", func() bool { return committed.Load() > 3 })
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		wg.Wait()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		_, after, err := r.Raw.Get(data)
		require.NoError(t, err)
		require.EqualValues(t, after.Version-before.Version, committed.Load())
	}
}

func TestACommitCannotSetDataOnItsPlace(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	a := recipetest.LockLater(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path))
	r.Queued(2)
	_, err := l.Commit(r.Ctx, zkrecipes.OpSet(l.Check().Path, []byte("shard 7"), -1))
	require.ErrorContains(t, err, "it is a place in a line")
	require.True(t, a.Waiting())
	require.NoError(t, l.Release())
	require.NoError(t, a.Get().Release())
}

func TestACancelledCommitReturnsAtOnceAndIsUncertain(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	for when, silence := range recipetest.Silences {
		t.Run(when, func(t *testing.T) {
			l := r.Lock()
			rule := r.P.On("multi(check,create)", 1, silence)
			ctx, cancel := context.WithCancelCause(r.Ctx)
			done := make(chan error, 1)
			path := r.Path + "-" + when
			go func() {
				_, err := l.Commit(ctx, zkrecipes.OpCreate(path, make([]byte, 1<<20-1000), 0, nil))
				done <- err
			}()
			r.P.Await(rule)
			why := errors.New("enough")
			cancel(why)
			err := <-done
			require.ErrorIs(t, err, zkrecipes.ErrUncertain)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NoError(t, l.Err(), "the lease is still held")
			rule.Release()
			r.P.Off(rule)
			rs, err := l.Commit(r.Ctx, zkrecipes.OpSet(path, nil, 0))
			require.NoError(t, err, "the commit was applied, before the one that follows it")
			require.Equal(t, int32(1), rs[0].Stat.Version)
			require.NoError(t, l.Release())
		})
	}
}

// The caller's cause is ErrClosed, as if the Client had been closed.
func TestACommitCancelledWithErrClosedIsUncertain(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	rule := r.P.On("multi(check)", 1, harness.HoldReply)
	ctx, cancel := context.WithCancelCause(r.Ctx)
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx)
		done <- err
	}()
	r.P.Await(rule)
	cancel(zkrecipes.ErrClosed)
	require.ErrorIs(t, <-done, zkrecipes.ErrUncertain)
	rule.Release()
	require.NoError(t, l.Release())
}

func TestACommitWithAContextThatHasEndedSendsNothing(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	ctx, cancel := context.WithCancel(r.Ctx)
	cancel()
	r.P.Reset()
	_, err := l.Commit(ctx, zkrecipes.OpSet(r.Path+"-x", nil, 0))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	require.Empty(t, r.P.Count())
	require.NoError(t, l.Release())
}

// Commit neither fails nor sends the request again and again.
func TestACommitWaitsForAConnectionThatIsSlowToClose(t *testing.T) {
	closing, free, once := make(chan struct{}), make(chan struct{}), new(sync.Once)
	c := recipetest.Dial(t, &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &recipetest.Lingering{Conn: nc, Closing: closing, Free: free, Once: once}, err
	}})
	l := recipetest.LockOn(t, zkrecipes.NewMutex(c, harness.NewPath(t)))
	s, _ := recipetest.Core(c).Session()
	var wg sync.WaitGroup
	wg.Go(s.BreakConnection)
	<-closing
	waits := recipetest.NewAwaited(harness.Within(t, 20*time.Second))
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(waits)
		done <- err
	}()
	<-waits.Waits
	tx, err := s.Start(l.Check())
	require.NoError(t, err)
	require.Empty(t, done)
	select {
	case <-tx.Done():
		t.Error("the transaction has ended before the connection is closed")
	default:
	}
	close(free)
	require.NoError(t, <-done)
	wg.Wait()
	require.NoError(t, l.Release())
}

func TestB53CommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		const op = "multi(check,create)"
		for name, what := range map[string]harness.Action{"applied": harness.DropAfter, "not applied": harness.DropBefore} {
			t.Run(name, func(t *testing.T) {
				rule := r.P.On(op, 1, what)
				defer r.P.Off(rule)
				path := r.Path + "/" + string(name[0])
				_, err := l.Commit(r.Ctx, zkrecipes.OpCreate(path, nil, 0, nil))
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				_, _, err = l.Get(r.Ctx, path)
				if what == harness.DropAfter {
					require.NoError(t, err)
					require.NoError(t, r.Raw.Delete(path, -1))
				} else {
					require.ErrorIs(t, err, zk.ErrNoNode)
				}
				require.NoError(t, l.Err(), "a short disconnect ends nothing")
			})
		}
		t.Run("ctx ends", func(t *testing.T) {
			rule := r.P.On(op, 1, harness.Hold)
			defer r.P.Off(rule)
			ctx, cancel := context.WithCancelCause(r.Ctx)
			why := errors.New("enough")
			go func() {
				r.P.Await(rule)
				cancel(why)
			}()
			_, err := l.Commit(ctx, zkrecipes.OpCreate(r.Path+"/c", nil, 0, nil))
			require.ErrorIs(t, err, zkrecipes.ErrUncertain)
			require.ErrorIs(t, err, why)
			rule.Release()
			harness.Eventually(t, "applied", func() bool { ok, _, _ := r.Raw.Exists(r.Path + "/c"); return ok })
			require.NoError(t, r.Raw.Delete(r.Path+"/c", -1))
		})
		require.NoError(t, l.Release())
	})
}
