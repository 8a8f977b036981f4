package zkrecipes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults during a Downgrade.

func TestB01DowngradeWhoseReplyIsLostIsDone(t *testing.T) {
	r := newRWRig(t, nil)
	for range 3 {
		l := held(t, r.w.Lock)
		number := r.inLine()[0].Number
		reader := r.joins(2, r.another().RLock)
		r.p.Reset()
		r.p.On(opDowngrade, 1, harness.DropAfter)
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		require.Equal(t, 2, r.p.CountOf(opDowngrade))
		b := reader.Get()
		line := r.inLine()
		require.Len(t, line, 2)
		require.Equal(t, number, line[0].Number)
		r.reads(l)
		require.NoError(t, l.Release())
		require.NoError(t, b.Release())
		r.queued(0)
	}
}

func TestB06DowngradeThatNeverArrivedIsSentAgain(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	r.p.Reset()
	r.p.On(opDowngrade, 1, harness.DropBefore)
	r.p.On(opDowngrade, 1, harness.DropBefore)
	r.p.On(opDowngrade, 1, harness.DropAfter)
	require.NoError(t, r.w.Downgrade(r.ctx, l))
	require.Equal(t, 4, r.p.CountOf(opDowngrade))
	require.Len(t, r.inLine(), 1)
	r.reads(l)
	require.NoError(t, l.Release())
	r.queued(0)
}

func TestB08DowngradeStartedWhileDisconnectedContinuesInTheBackground(t *testing.T) {
	r := newRWRig(t, nil)
	s, _ := r.c.client.Session()
	cut := func() {
		r.p.Refuse(true)
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	}
	underWay := func(l *Lease) {
		t.Helper()
		harness.Eventually(t, "under way", func() bool { return l.handle.Grant.Holding() == line.HoldsShared })
	}
	t.Run("completes after its caller has left", func(t *testing.T) {
		l := held(t, r.w.Lock)
		cut()
		ctx, cancel := context.WithCancel(r.ctx)
		done := r.downgrades(ctx, l)
		underWay(l)
		cancel()
		require.ErrorIs(t, harness.Receive(t, done), context.Canceled)
		require.NoError(t, l.Err())
		_, err := r.w.Lock(l.Reentrant(r.ctx))
		require.ErrorIs(t, err, ErrUpgrade, "it is becoming a reader")
		read, err := r.w.RLock(l.Reentrant(r.ctx))
		require.NoError(t, err)
		require.NoError(t, read.Release())
		r.p.Refuse(false)
		require.NoError(t, r.w.Downgrade(r.ctx, l), "it waits for the first Downgrade")
		r.reads(l)
		require.NoError(t, l.Release())
		r.queued(0)
	})
	t.Run("does not hold up Release", func(t *testing.T) {
		l := held(t, r.w.Lock)
		cut()
		done := r.downgrades(r.ctx, l)
		underWay(l)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Err(), ErrReleased)
		r.queued(1)
		r.p.Refuse(false)
		require.ErrorIs(t, harness.Receive(t, done), ErrReleased)
		r.queued(0)
		r.holds(0)
		require.NoError(t, r.w.Do(r.ctx, nothing))
	})
}

func TestB09DowngradeWhoseSessionExpiresIsLost(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]harness.Action{"before it is applied": harness.Hold, "before the reply": harness.Withhold} {
		t.Run(name, func(t *testing.T) {
			r := newRWRig(t, nil)
			l := held(t, r.w.Lock)
			work := l.Context(r.ctx)
			next := r.joins(2, r.another().Lock)
			rule := r.p.On(opDowngrade, 1, at)
			done := r.downgrades(r.ctx, l)
			r.p.Await(rule)
			if at == harness.Withhold {
				harness.Eventually(t, "applied", func() bool { return strings.Contains(r.inLine()[0].Name, "__READ__") })
			}
			r.p.Expire()
			rule.Release()
			require.ErrorIs(t, harness.Receive(t, done), ErrLost)
			require.ErrorIs(t, harness.Cause(t, work), ErrLost)
			require.ErrorIs(t, l.Release(), ErrLost)
			require.ErrorIs(t, r.w.Downgrade(r.ctx, l), ErrLost)
			b := next.Get()
			_, err := b.Commit(r.ctx)
			require.NoError(t, err)
			require.NoError(t, b.Release())
			require.NoError(t, r.w.Do(r.ctx, nothing), "in the next session")
			r.queued(0)
			r.holds(0)
		})
	}
}

// The server is silent until the lease has ended. Whatever it applied in the meantime
// is undone.
func TestB16DowngradeUnderASilentServerEndsWithTheLease(t *testing.T) {
	t.Parallel()
	r := newRWRig(t, &Options{SessionTimeout: 1500 * time.Millisecond})
	l := held(t, r.w.Lock)
	work := l.Context(r.ctx)
	r.p.Stall()
	done := r.downgrades(r.ctx, l)
	require.ErrorIs(t, harness.Cause(t, work), ErrLost)
	require.ErrorIs(t, l.Err(), ErrLost)
	r.p.Resume()
	require.ErrorIs(t, harness.Receive(t, done), ErrLost)
	r.queued(0)
	require.NoError(t, r.w.Do(r.ctx, nothing))
	r.holds(0)
}

func TestB22LeaseIsLostWhenAnOperatorDeletesThePlaceOfADowngrade(t *testing.T) {
	t.Parallel()
	r := newRWRig(t, nil)
	lostNow := func(l *Lease) {
		t.Helper()
		require.ErrorIs(t, l.Err(), ErrLost)
		require.ErrorIs(t, l.Release(), ErrLost)
		r.queued(0)
		r.holds(0)
	}
	t.Run("before", func(t *testing.T) {
		l := held(t, r.w.Lock)
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, r.w.Downgrade(r.ctx, l), ErrLost)
		lostNow(l)
	})
	t.Run("between the attempts", func(t *testing.T) {
		l := held(t, r.w.Lock)
		r.p.On(opDowngrade, 1, harness.DropAfter)
		again := r.p.On(opDowngrade, 1, harness.Hold)
		done := r.downgrades(r.ctx, l)
		r.p.Await(again)
		require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[0].Name, -1))
		again.Release()
		require.ErrorIs(t, harness.Receive(t, done), ErrLost)
		lostNow(l)
		r.p.Off(again)
	})
	t.Run("after", func(t *testing.T) {
		l := held(t, r.w.Lock)
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		_, err := l.Commit(r.ctx)
		require.ErrorIs(t, err, ErrLost)
		lostNow(l)
	})
	t.Run("after, and its own watch fires", func(t *testing.T) {
		ahead := r.byHand("_c_" + curatorUUID(1) + "-__WRIT__")
		a := r.joins(2, r.w.Lock)
		require.NoError(t, r.raw.Delete(ahead, -1))
		l := a.Get() // it has waited, so it watches its own place
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, harness.Cause(t, l.Context(r.ctx)), ErrLost) // a tenth of the timeout later
		lostNow(l)
	})
	t.Run("after, and the watch of a waiter in the same session fires", func(t *testing.T) {
		l := held(t, r.w.Lock)
		waiter := r.joins(2, r.w.Lock)
		require.NoError(t, r.w.Downgrade(r.ctx, l))
		harness.Eventually(t, "watched", func() bool {
			return len(watched(r.c)) == 2 && idle(r.c) && strings.Contains(strings.Join(watched(r.c), " "), "__READ__")
		})
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, harness.Cause(t, l.Context(r.ctx)), ErrLost)
		require.NoError(t, waiter.Get().Release())
		lostNow(l)
	})
}

func TestB32LeaseIsHeldAfterItsDowngradeIsCancelled(t *testing.T) {
	r := newRWRig(t, nil)
	t.Run("before it is sent", func(t *testing.T) {
		l := held(t, r.w.Lock)
		r.p.Reset()
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		require.ErrorIs(t, r.w.Downgrade(ctx, l), context.Canceled)
		require.Empty(t, r.p.Count())
		require.Equal(t, line.HoldsAlone, l.handle.Grant.Holding())
		require.NoError(t, l.Release())
	})
	for name, at := range map[string]harness.Action{"before it is applied": harness.Hold, "before the reply": harness.HoldReply} {
		t.Run(name, func(t *testing.T) {
			l := held(t, r.w.Lock)
			rule := r.p.On(opDowngrade, 1, at)
			defer r.p.Off(rule)
			ctx, cancel := context.WithCancelCause(r.ctx)
			done := r.downgrades(ctx, l)
			r.p.Await(rule)
			why := errors.New("enough")
			cancel(why)
			err := harness.Receive(t, done)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NoError(t, l.Err(), "the lease is held either way")
			second := r.downgrades(r.ctx, l)
			rule.Release()
			require.NoError(t, harness.Receive(t, second))
			r.reads(l)
			require.NoError(t, l.Release())
			r.queued(0)
		})
	}
}

// The commit was not sent, so its error must not say that it may have been applied.
func TestB32CommitCancelledDuringADowngradeIsNotSent(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	data := r.path + "-data"
	// The server has applied a downgrade, but the client has not received the reply.
	last := l.handle.Grant.Place()
	next := last.AsReader()
	moved := make(chan struct{})
	l.handle.Grant.Mu.Lock()
	l.handle.Grant.Changing = moved
	l.handle.Grant.Mu.Unlock()
	s, _ := r.c.client.Session()
	s.Expect(l.handle.Grant, next.Path)
	require.NoError(t, last.Replace(next))

	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	committed := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, OpCreate(data, nil, 0, nil))
		committed <- err
	}()
	var err error
	early := false
	select {
	case err = <-committed:
		early = true
	case <-time.After(2 * time.Second):
	}
	l.handle.Grant.Mu.Lock()
	l.handle.Grant.Current.Store(next)
	l.handle.Grant.Changing = nil
	l.handle.Grant.Mu.Unlock()
	close(moved)
	s.Forget(l.handle.Grant, last.Path)
	if !early {
		err = harness.Receive(t, committed)
	}
	require.Error(t, err, "the commit was not sent")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, early, "the commit waits no longer than its context")
	ok, _, err := r.raw.Exists(data)
	require.NoError(t, err)
	require.False(t, ok)
	r.reads(l)
	require.NoError(t, l.Release())
}

func TestB13ReleaseThatMeetsADowngradeLeavesNothing(t *testing.T) {
	r := newRWRig(t, nil)
	t.Run("under way", func(t *testing.T) {
		l := held(t, r.w.Lock)
		next := r.joins(2, r.another().Lock)
		rule := r.p.On(opDowngrade, 1, harness.Hold)
		done := r.downgrades(r.ctx, l)
		r.p.Await(rule)
		released := make(chan error, 2)
		for range 2 {
			go func() { released <- l.Release() }()
		}
		harness.Eventually(t, "released", func() bool { return errors.Is(l.Err(), ErrReleased) })
		rule.Release()
		require.NoError(t, harness.Receive(t, released))
		require.NoError(t, harness.Receive(t, released))
		require.ErrorIs(t, harness.Receive(t, done), ErrReleased)
		require.NoError(t, next.Get().Release())
		r.queued(0)
		r.p.Off(rule)
	})
	t.Run("at any time", func(t *testing.T) {
		won := 0
		for i := range 100 {
			l := held(t, r.w.Lock)
			done := r.downgrades(r.ctx, l)
			if i%2 == 0 {
				<-time.After(time.Duration(i) * 10 * time.Microsecond) // so that some downgrades get further
			}
			require.NoError(t, l.Release())
			if err := harness.Receive(t, done); err != nil {
				require.ErrorIs(t, err, ErrReleased)
			} else {
				won++
			}
			r.queued(0)
		}
		t.Logf("%d of 100 were readers before they left", won)
	})
	r.holds(0)
}

func TestB13ReentryThatMeetsADowngradeHoldsOrFails(t *testing.T) {
	r := newRWRig(t, nil)
	entered := 0
	for i := range 100 {
		l := held(t, r.w.Lock)
		enter := r.w.Lock
		if i%2 == 1 {
			enter = r.w.RLock
		}
		done := r.downgrades(r.ctx, l)
		again, err := enter(l.Reentrant(r.ctx))
		moved := harness.Receive(t, done)
		switch {
		case err != nil:
			require.ErrorIs(t, err, ErrUpgrade)
			require.NoError(t, moved)
		case i%2 == 0:
			require.ErrorContains(t, moved, "re-entries are open", "the writer's re-entry is still held")
			require.Contains(t, again.Check().Path, "__WRIT__")
			entered++
		}
		for _, l := range []*Lease{l, again} {
			if l != nil {
				_, err := l.Commit(r.ctx)
				require.NoError(t, err)
				require.NoError(t, l.Release())
			}
		}
		r.queued(0)
	}
	t.Logf("%d writers came before", entered)
}

func TestB35CloseDuringADowngradeLeavesNoPlace(t *testing.T) {
	for name, at := range map[string]harness.Action{"before it is applied": harness.Hold, "before the reply": harness.HoldReply} {
		t.Run(name, func(t *testing.T) {
			r := newRWRig(t, nil)
			l := held(t, r.w.Lock)
			work := l.Context(r.ctx)
			rule := r.p.On(opDowngrade, 1, at)
			done := r.downgrades(r.ctx, l)
			r.p.Await(rule)
			closed := make(chan error, 1)
			go func() { closed <- r.c.Close() }()
			require.ErrorIs(t, harness.Cause(t, work), ErrClosed, "before the place is deleted")
			require.ErrorIs(t, harness.Receive(t, done), ErrClosed)
			rule.Release()
			require.NoError(t, harness.Receive(t, closed))
			require.ErrorIs(t, l.Release(), ErrClosed)
			require.Empty(t, r.inLine(), "Close has waited for the downgrade")
		})
	}
	t.Run("while disconnected", func(t *testing.T) {
		r := newRWRig(t, &Options{SessionTimeout: time.Second})
		s, _ := r.c.client.Session()
		l := held(t, r.w.Lock)
		r.p.Refuse(true)
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		done := r.downgrades(r.ctx, l)
		began := time.Now()
		require.ErrorContains(t, r.c.Close(), "left to time out")
		require.Less(t, time.Since(began), 3*time.Second) // milliseconds, as a rule
		require.Error(t, harness.Receive(t, done))
		require.Error(t, l.Err())
		r.queued(0) // when the session has timed out
	})
	t.Run("at any time", func(t *testing.T) {
		path := harness.NewPath(t)
		for i := range 30 {
			c := dial(t, nil)
			w := NewRWLock(c, path)
			l := held(t, w.Lock)
			done := make(chan error, 1)
			go func() { done <- w.Downgrade(context.Background(), l) }()
			<-time.After(time.Duration(i) * 20 * time.Microsecond)
			require.NoError(t, c.Close())
			if err := harness.Receive(t, done); err != nil {
				require.ErrorIs(t, err, ErrClosed)
			}
			require.Empty(t, places(t, harness.Servers(), path))
		}
	})
}

func TestB36DowngradeThatIsRefusedLeavesAWriter(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	reader := r.joins(2, r.another().RLock)
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
	require.NoError(t, err)
	require.ErrorIs(t, r.w.Downgrade(r.ctx, l), zk.ErrNoAuth)
	require.Contains(t, l.Check().Path, "__WRIT__")
	r.holds(1)
	again, err := r.w.Lock(l.Reentrant(r.ctx))
	require.NoError(t, err)
	require.NoError(t, again.Release())
	require.True(t, reader.Waiting())
	r.p.Reset()
	require.NoError(t, l.Release())
	require.Equal(t, map[string]int{opRelease: 1}, r.p.Count(), "the release sends the signal")
	require.NoError(t, reader.Get().Release())
	r.holds(0)
}

// The reply is lost, and the line's ACL changes before the request is sent again. The
// server checks the ACL first, so it never returns NodeExists.
func TestB36DowngradeWhoseSecondAttemptIsRefusedIsResolved(t *testing.T) {
	for name, lose := range map[string]harness.Action{"applied": harness.DropAfter, "not applied": harness.DropBefore} {
		t.Run(name, func(t *testing.T) {
			r := newRWRig(t, nil)
			l := held(t, r.w.Lock)
			next := r.joins(2, r.another().Lock)
			r.p.On(opDowngrade, 1, lose)
			again := r.p.On(opDowngrade, 1, harness.Hold)
			r.p.On("multi(check)", 1, harness.DropAfter)
			done := r.downgrades(r.ctx, l)
			r.p.Await(again)
			_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
			require.NoError(t, err)
			again.Release()
			err = harness.Receive(t, done)
			<-r.c.client.Tasks.Done()
			places := r.inLine()
			require.Len(t, places, 2, "no third place is left")
			require.Equal(t, l.Check().Path, r.path+"/"+places[0].Name, "the lease names its place")
			if lose == harness.DropAfter {
				require.NoError(t, err)
				r.reads(l)
			} else {
				require.ErrorIs(t, err, zk.ErrNoAuth)
				require.Equal(t, line.KindWrite, places[0].Kind)
				require.Equal(t, line.HoldsAlone, l.handle.Grant.Holding())
				r.holds(1)
			}
			require.True(t, next.Waiting())
			_, err = l.Commit(r.ctx)
			require.NoError(t, err)
			require.NoError(t, l.Release())
			require.NoError(t, next.Get().Release())
			r.queued(0)
			r.holds(0)
		})
	}
}

// If the client cannot learn the outcome at all, the lease is lost: a holder that went
// on as a writer might have no place in the line.
func TestB36DowngradeWhoseOutcomeStaysUnknownIsLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				lock := NewRWLock(w.stranger(nil), w.path)
				l := held(t, lock.Lock)
				work := l.Context(t.Context())
				next := later(t, NewRWLock(w.stranger(nil), w.path).Lock)
				synctest.Wait()
				w.plan.Add(
					zktest.Fault{Do: zktest.Drop, After: after, Op: opDowngrade},
					zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: opDowngrade, Skip: 1},
					zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "multi(check)"},
				)
				require.ErrorIs(t, lock.Downgrade(t.Context(), l), ErrLost)
				require.ErrorIs(t, harness.Cause(t, work), ErrLost)
				synctest.Wait()
				require.Len(t, w.line(), 1, "only the next place is left")
				w.stands(next.Get())
			})
		})
	}
}

// Writers, readers and downgrades while connections are lost: a writer is always
// alone, and no places or watches are left at the end.
func TestRWLockExcludesUnderDropsAndDowngrades(t *testing.T) {
	r := newRWRig(t, nil)
	stop := time.Now().Add(3 * time.Second)
	other := r.another()
	var readers, writers, grants, moved atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		w := r.w
		if i%4 == 0 {
			w = other
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := context.WithTimeout(r.ctx, time.Duration(20+i*17)*time.Millisecond)
				lock := w.RLock
				if i%3 == 0 {
					lock = w.Lock
				}
				l, err := lock(ctx)
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
					continue
				}
				grants.Add(1)
				if i%3 == 0 {
					if writers.Add(1) != 1 || readers.Load() != 0 {
						t.Error("a writer is not alone")
					}
					_, _ = l.Commit(ctx)
					readers.Add(1) // before others can
					writers.Add(-1)
					if err := w.Downgrade(ctx, l); err == nil {
						moved.Add(1)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				} else {
					readers.Add(1)
				}
				if writers.Load() != 0 {
					t.Error("a reader and a writer hold the lock together")
				}
				_, _ = l.Commit(ctx)
				cancel()
				readers.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := 0; time.Now().Before(stop); n++ {
		r.p.Drop()
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants, %d downgrades", grants.Load(), moved.Load())
	r.queued(0)
	r.holds(0)
	harness.Eventually(t, "watches", func() bool { return watchesOf(r.c) == 0 })
}
