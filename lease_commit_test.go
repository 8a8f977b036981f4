package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Moments in which two things happen at once.

func TestCommitThatMeetsAnEvictionNeverSaysThatItWasDone(t *testing.T) {
	r := newRig(t, nil)
	data := r.path + "-data"
	_, err := r.raw.Create(data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 15 {
		l := r.lock()
		r.c.tasks.start(l.g.guard) // hears of the eviction at once
		// Entries and contexts make the end of the grant take its time.
		for range 4 {
			again, err := r.m.Lock(l.Reentrant(r.ctx))
			require.NoError(t, err)
			for range 200 {
				again.Context(r.ctx)
			}
		}
		eventually(t, "watched", func() bool { return watchesOf(r.c) == 1 && r.c.idle() })
		_, before, err := r.raw.Get(data)
		require.NoError(t, err)
		var said atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					_, err := l.Commit(r.ctx, &zk.SetDataRequest{Path: data, Version: -1})
					if err != nil {
						if !errors.Is(err, ErrLost) {
							t.Error(err)
						}
						return
					}
					said.Add(1)
				}
			})
		}
		eventually(t, "committing", func() bool { return said.Load() > 3 })
		require.NoError(t, r.raw.Delete(l.Check().Path, -1))
		wg.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
		_, after, err := r.raw.Get(data)
		require.NoError(t, err)
		require.EqualValues(t, after.Version-before.Version, said.Load())
	}
}

func TestNothingIsGrantedAfterCloseHasBegun(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.c.session()
	p, err := r.m.line.join(r.ctx, s, kindLock)
	require.NoError(t, err)
	require.True(t, p.first)
	busy := make(chan struct{})
	r.c.tasks.start(func() { <-busy }) // keeps Close from getting on
	closed := make(chan error)
	go func() { closed <- r.c.Close() }()
	<-r.c.closing.Done()
	_, err = p.grant(r.ctx)
	require.ErrorIs(t, err, ErrClosed)
	close(busy)
	require.NoError(t, <-closed)
}

func TestCloseIsPromptWhileGoroutinesLock(t *testing.T) {
	path := newPath(t)
	for range 15 {
		c := dial(t, nil)
		m := NewMutex(c, path)
		var live []context.Context
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					l, err := m.Lock(context.Background())
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					live = append(live, l.Context(context.Background()))
					if len(live) == 20 {
						go c.Close()
					}
					mu.Unlock()
					l.Release()
				}
			})
		}
		wg.Wait()
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 2*time.Second)
		for _, ctx := range live {
			require.Error(t, ctx.Err())
		}
	}
}

func TestACommitCannotSayFarewellForItsPlace(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	a := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(2)
	_, err := l.Commit(r.ctx, &zk.SetDataRequest{Path: l.Check().Path, Data: []byte("shard 7"), Version: -1})
	require.ErrorContains(t, err, "it is a place in a line")
	require.True(t, a.waiting())
	require.NoError(t, l.Release())
	require.NoError(t, a.granted().Release())
}

func TestCallsGivenUpWhileDisconnectedAreNeverSent(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.c.session()
	r.p.refusing(true)
	eventually(t, "down", func() bool { up, _ := s.connected(); return !up })
	before := runtime.NumGoroutine()
	for range 500 {
		ctx, cancel := context.WithTimeout(r.ctx, 100*time.Microsecond)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := r.m.Lock(ctx); return err },
			func(ctx context.Context) error { _, err := r.m.TryLock(ctx); return err },
			func(ctx context.Context) error { _, err := r.m.Contenders(ctx); return err },
		} {
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		}
		cancel()
	}
	require.Less(t, runtime.NumGoroutine(), before+20)
	r.p.reset()
	r.p.refusing(false)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	require.Equal(t, map[string]int{opJoin: 1, opRelease: 1}, r.p.count())
}

type slowHandler struct {
	slog.Handler
	free chan struct{}
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.free
	panic("and it panics")
}

func TestB41ASlowLoggerHoldsUpNobody(t *testing.T) {
	free := make(chan struct{})
	r := newRig(t, &Options{Logger: slog.New(slowHandler{slog.DiscardHandler, free})})
	l := r.lock()
	r.p.expire()
	<-l.Context(r.ctx).Done()
	require.NoError(t, r.m.Do(r.ctx, nothing))
	close(free)
}

func TestAGrantHeardOnAnEarlierConnectionIsHandedOutBehindASync(t *testing.T) {
	r := newRig(t, nil)
	holder := lockOn(t, NewMutex(dial(t, nil), r.path))
	s, _ := r.c.session()
	p, err := r.m.line.join(r.ctx, s, kindLock)
	require.NoError(t, err)
	pred, _, err := p.look(r.ctx)
	require.NoError(t, err)
	until := make(chan error)
	go func() { until <- p.until(r.ctx, *pred) }()
	r.asleep(1)
	require.NoError(t, holder.Release())
	require.NoError(t, <-until)
	require.True(t, p.first)
	r.p.reset()
	r.p.drop()
	eventually(t, "down", func() bool { up, _ := s.connected(); return !up })
	require.NoError(t, s.ready(r.ctx))
	g, err := p.grant(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 1, r.p.countOf("sync"))
	l, err := g.enter(kindLock)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

func TestB36AJoinThatMayNotBeSearchedForIsDeletedWhenItIsSeen(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	rule := r.p.on(opJoin, 1, dropAfter)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.p.off(rule)
	_, err = r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	r.queued(1)
	require.NoError(t, r.m.Do(r.ctx, nothing), "it is in nobody's way")
	r.queued(0)
}

func TestB28AnExhaustedPlaceThatCannotBeDeletedIsAnErrorToo(t *testing.T) {
	r := newRig(t, nil)
	r.c.last = -1
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrExhausted)
}

func TestAContextsEndIsReportedWhateverHappensToTheConnection(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	for i := range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		rule := r.p.on("getChildren2", 1, hold)
		tried := make(chan error, 1)
		go func() { _, err := r.m.TryLock(ctx); tried <- err }()
		r.p.await(rule)
		go func() {
			for range i * 60 {
				runtime.Gosched()
			}
			cancel()
		}()
		r.p.drop()
		err := <-tried
		rule.release()
		r.p.off(rule)
		if !errors.Is(err, ErrLocked) {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
	require.NoError(t, l.Release())
}

func TestAnErrorNamesItsOwnOperation(t *testing.T) {
	r := newRig(t, nil)
	other := NewMutex(r.c, r.path+"-other")
	l := r.lock()
	blocker := lockOn(t, other)
	ctx := l.Context(r.ctx)
	failed := make(chan error)
	go func() { _, err := other.Lock(ctx); failed <- err }()
	eventually(t, "waiting", func() bool { return len(children(t, r.raw, r.path+"-other")) == 2 })
	require.NoError(t, l.Release())
	err := <-failed
	require.EqualError(t, err, "zkrecipes: lock "+r.path+"-other: context canceled: zkrecipes: hold "+r.path+": lease released")
	require.ErrorIs(t, err, ErrReleased)
	require.NoError(t, blocker.Release())
}

func TestB52PathsThatNoRequestHasRoomForAreRefused(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	r.p.reset()
	for _, n := range []int{1_048_000, 1_048_560, 1_049_000, 2_000_000} {
		path := "/" + strings.Repeat("a", n)
		_, err := NewMutex(r.c, path).Lock(r.ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, _, err = l.Get(r.ctx, path)
		require.ErrorContains(t, err, "servers accept 1048575")
	}
	require.Empty(t, r.p.count())
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
}

func TestReadsOfALeaseOfAClosedClientSaySo(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	rule := r.p.on("getData", 1, hold)
	got := make(chan error)
	go func() { _, _, err := l.Get(r.ctx, r.path); got <- err }()
	r.p.await(rule)
	go r.c.Close()
	<-r.c.closing.Done()
	eventually(t, "ended", func() bool { return l.Err() != nil })
	rule.release()
	if err := <-got; err != nil {
		require.ErrorIs(t, err, ErrClosed)
	}
	r.c.Close()
}

func TestALineThatWasIdleIsLookedAtAgain(t *testing.T) {
	r := newRig(t, nil)
	state := r.c.lines[r.path]
	state.used = time.Now().Add(-idleLine)
	r.c.lines[r.path] = state
	require.NoError(t, r.raw.Delete(r.path, -1)) // reaped, and somebody else's now
	_, err := r.raw.Create(r.path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	data, _, err := r.raw.Get(r.path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

// Many waiters and holders in one session and in others, while connections
// drop and places are evicted: one inside, and nothing left behind.
func TestOneSessionsGoroutinesUnderDropsAndEvictions(t *testing.T) {
	r := newRig(t, nil)
	stop := time.Now().Add(4 * time.Second)
	other := NewMutex(dial(t, nil), r.path)
	var inside, grants atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		m := r.m
		if i%4 == 0 {
			m = other
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := r.ctx, context.CancelFunc(func() {})
				if i%2 == 1 {
					ctx, cancel = context.WithTimeout(r.ctx, time.Duration(5+i*7)*time.Millisecond)
				}
				l, err := m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrEvicted) {
						t.Error(err)
					}
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two inside")
				}
				grants.Add(1)
				runtime.Gosched()
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := 0; time.Now().Before(stop); n++ {
		r.p.drop()
		if ms := r.inLine(); len(ms) > 6 { // the last one, who holds for certain not
			r.raw.Delete(r.path+"/"+ms[len(ms)-1].name, -1)
		}
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants", grants.Load())
	r.queued(0)
	eventually(t, "watches", func() bool { return watchesOf(r.c) == 0 })
}
