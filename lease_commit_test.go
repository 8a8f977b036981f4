package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Commits that race with evictions, cancellation and lost connections.

func TestCommitThatMeetsAnEvictionReportsSuccessOnlyIfApplied(t *testing.T) {
	r := newRig(t, nil)
	data := r.path + "-data"
	_, err := r.raw.Create(data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 15 {
		l := r.lock()
		r.c.client.Tasks.Start(l.handle.Grant.WatchPlace) // so that the eviction is noticed at once
		// Re-entries and contexts slow down the end of the grant.
		for range 4 {
			again, err := r.m.Lock(l.Reentrant(r.ctx))
			require.NoError(t, err)
			for range 200 {
				again.Context(r.ctx)
			}
		}
		harness.Eventually(t, "watched", func() bool { return watchesOf(r.c) == 1 && idle(r.c) })
		_, before, err := r.raw.Get(data)
		require.NoError(t, err)
		var committed atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					_, err := l.Commit(r.ctx, OpSet(data, nil, -1))
					if err != nil {
						if !errors.Is(err, ErrLost) {
							t.Error(err)
						}
						return
					}
					committed.Add(1)
				}
			})
		}
		harness.Eventually(t, "committing", func() bool { return committed.Load() > 3 })
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		wg.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
		_, after, err := r.raw.Get(data)
		require.NoError(t, err)
		require.EqualValues(t, after.Version-before.Version, committed.Load())
	}
}

func TestACommitCannotSetDataOnItsPlace(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	a := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(2)
	_, err := l.Commit(r.ctx, OpSet(l.Check().Path, []byte("shard 7"), -1))
	require.ErrorContains(t, err, "it is a place in a line")
	require.True(t, a.Waiting())
	require.NoError(t, l.Release())
	require.NoError(t, a.Get().Release())
}

func TestACancelledCommitReturnsAtOnceAndIsUncertain(t *testing.T) {
	r := newRig(t, nil)
	for when, silence := range silences {
		t.Run(when, func(t *testing.T) {
			l := r.lock()
			rule := r.p.On("multi(check,create)", 1, silence)
			ctx, cancel := context.WithCancelCause(r.ctx)
			done := make(chan error, 1)
			path := r.path + "-" + when
			go func() {
				_, err := l.Commit(ctx, OpCreate(path, make([]byte, 1<<20-1000), 0, nil))
				done <- err
			}()
			r.p.Await(rule)
			why := errors.New("enough")
			cancel(why)
			err := <-done
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NoError(t, l.Err(), "the lease is still held")
			rule.Release()
			r.p.Off(rule)
			rs, err := l.Commit(r.ctx, OpSet(path, nil, 0))
			require.NoError(t, err, "the commit was applied, before the one that follows it")
			require.Equal(t, int32(1), rs[0].Stat.Version)
			require.NoError(t, l.Release())
		})
	}
}

// The caller's cause is ErrClosed, as if the Client had been closed.
func TestACommitCancelledWithErrClosedIsUncertain(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	rule := r.p.On("multi(check)", 1, harness.HoldReply)
	ctx, cancel := context.WithCancelCause(r.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx)
		done <- err
	}()
	r.p.Await(rule)
	cancel(ErrClosed)
	require.ErrorIs(t, <-done, ErrUncertain)
	rule.Release()
	require.NoError(t, l.Release())
}

func TestACommitWithAContextThatHasEndedSendsNothing(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.p.Reset()
	_, err := l.Commit(ctx, OpSet(r.path+"-x", nil, 0))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUncertain)
	require.Empty(t, r.p.Count())
	require.NoError(t, l.Release())
}

// Commit neither fails nor sends the request again and again.
func TestACommitWaitsForAConnectionThatIsSlowToClose(t *testing.T) {
	closing, free, once := make(chan struct{}), make(chan struct{}), new(sync.Once)
	c := dial(t, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lingering{nc, closing, free, once}, err
	}})
	l := lockOn(t, NewMutex(c, harness.NewPath(t)))
	s, _ := c.client.Session()
	var wg sync.WaitGroup
	wg.Go(s.BreakConnection)
	<-closing
	waits := newAwaited(harness.Within(t, 20*time.Second))
	done := make(chan error, 1)
	go func() {
		_, err := l.Commit(waits)
		done <- err
	}()
	<-waits.waits
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
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		const op = "multi(check,create)"
		for name, what := range map[string]harness.Action{"applied": harness.DropAfter, "not applied": harness.DropBefore} {
			t.Run(name, func(t *testing.T) {
				rule := r.p.On(op, 1, what)
				defer r.p.Off(rule)
				path := r.path + "/" + string(name[0])
				_, err := l.Commit(r.ctx, OpCreate(path, nil, 0, nil))
				require.ErrorIs(t, err, ErrUncertain)
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				_, _, err = l.Get(r.ctx, path)
				if what == harness.DropAfter {
					require.NoError(t, err)
					require.NoError(t, r.raw.Delete(path, -1))
				} else {
					require.ErrorIs(t, err, zk.ErrNoNode)
				}
				require.NoError(t, l.Err(), "a short disconnect ends nothing")
			})
		}
		t.Run("ctx ends", func(t *testing.T) {
			rule := r.p.On(op, 1, harness.Hold)
			defer r.p.Off(rule)
			ctx, cancel := context.WithCancelCause(r.ctx)
			why := errors.New("enough")
			go func() {
				r.p.Await(rule)
				cancel(why)
			}()
			_, err := l.Commit(ctx, OpCreate(r.path+"/c", nil, 0, nil))
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorIs(t, err, why)
			rule.Release()
			harness.Eventually(t, "applied", func() bool { ok, _, _ := r.raw.Exists(r.path + "/c"); return ok })
			require.NoError(t, r.raw.Delete(r.path+"/c", -1))
		})
		require.NoError(t, l.Release())
	})
}
