package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// What users of other lock libraries rely on, for each way to hold a lock.

func TestA01EachSideHoldsForItsFunction(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		broken := errors.New("broken")
		err := r.m.Do(r.ctx, func(ctx context.Context, l *Lease) error {
			require.NoError(t, l.Err())
			_, err := r.rival.TryLock(r.ctx)
			require.ErrorIs(t, err, ErrLocked)
			return broken
		})
		require.Equal(t, broken, err)
		require.PanicsWithValue(t, "oh", func() {
			r.m.Do(r.ctx, func(context.Context, *Lease) error { panic("oh") })
		})
		require.NoError(t, r.rival.Do(r.ctx, nothing))
		r.queued(0)
	})
}

func TestA03EachSideIsGrantedAfterTheHoldersSessionExpires(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		work := l.Context(r.ctx)
		next := r.joins(2, r.rival)
		require.True(t, next.Waiting())
		r.p.Expire()
		b := next.Get()
		require.ErrorIs(t, harness.Cause(t, work), ErrLost)
		require.Greater(t, b.Token(), l.Token())
		require.NoError(t, b.Release())
	})
}

func TestA05EachSideWorksUnderAPrefix(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			prefix, ctx := harness.NewPath(t)+"/app", harness.Within(t, 20*time.Second)
			m := side.ours(dial(t, &Options{Prefix: prefix}), "/locks/orders") // missing parents, too
			l := held(t, m.Lock)
			require.Contains(t, l.Check().Path, prefix+"/locks/orders/")
			_, err := side.theirs(dial(t, nil), prefix+"/locks/orders").TryLock(ctx)
			require.ErrorIs(t, err, ErrLocked)
			cs, err := m.Contenders(ctx)
			require.NoError(t, err)
			require.Len(t, cs, 1)
			require.NoError(t, l.Release())
		})
	}
}

func TestA06OnEachSideTheLastReleaseFrees(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		ctx := l.Reentrant(r.ctx)
		r.p.Reset()
		second, err := r.m.Lock(ctx)
		require.NoError(t, err)
		third, err := r.m.TryLock(second.Reentrant(ctx))
		require.NoError(t, err)
		require.Empty(t, r.p.Count())
		require.Equal(t, l.Token(), third.Token())
		work := second.Context(r.ctx)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Err(), ErrReleased)
		require.NoError(t, second.Err())
		require.NoError(t, work.Err())
		_, err = r.m.Lock(ctx)
		require.ErrorIs(t, err, ErrReleased, "the context of the entry that was released")
		require.NoError(t, second.Release())
		require.ErrorIs(t, context.Cause(work), ErrReleased)
		_, err = r.rival.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, third.Release())
		_, err = r.m.Lock(third.Reentrant(r.ctx))
		require.ErrorIs(t, err, ErrReleased)
		require.Equal(t, map[string]int{r.release: 1}, r.p.Count())
		require.NoError(t, r.rival.Do(r.ctx, nothing))
	})
}

func TestA07OnEachSideAHoldersContextIsADeadlockAtOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		ctx := l.Context(r.ctx)
		r.p.Reset()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := r.m.Lock(context.WithValue(ctx, t, "derived")); !errors.Is(err, ErrDeadlock) {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		require.ErrorIs(t, r.m.Do(ctx, nothing), ErrDeadlock)
		require.ErrorContains(t, r.m.Do(ctx, nothing),
			"lock "+r.path+": the caller holds this lock already (Lease.Reentrant lets it re-enter)")
		if r.kind.exclusive() { // else see TestA23AReadersContextReadsNoSecondTime
			_, err := r.m.TryLock(ctx)
			require.ErrorIs(t, err, ErrLocked)
		}
		require.Empty(t, r.p.Count())
		require.NoError(t, r.ours(r.c, r.path+"-elsewhere").Do(ctx, nothing), "another lock is none of its business")
		require.NoError(t, l.Release())
		require.NoError(t, r.m.Do(context.WithoutCancel(ctx), nothing), "holds no more")
	})
}

func TestA08OthersDoNotEnterWithAHolderOfEitherSide(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		same := r.theirs(r.c, r.path) // in its session, without its context
		a := r.joins(2, same)
		require.True(t, a.Waiting())
		_, err := same.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

func TestA09EachSideAndItsRivalHandOver(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		var last Token
		for range 15 {
			l := held(t, r.m.Lock)
			a := r.joins(2, r.rival)
			require.True(t, a.Waiting())
			require.NoError(t, l.Release())
			b := a.Get()
			c := r.joins(2, r.m)
			require.True(t, c.Waiting())
			require.NoError(t, b.Release())
			again := c.Get()
			require.NoError(t, again.Release())
			for _, l := range []*Lease{l, b, again} {
				require.Greater(t, l.Token(), last)
				last = l.Token()
			}
		}
		r.queued(0)
	})
}

// A line of both kinds is served in order, readers together.
func TestA10AMixedLineIsServedInOrder(t *testing.T) {
	r := newRWRig(t, nil)
	holder := held(t, r.w.Lock)
	kinds := []string{"w", "r", "r", "w", "w", "r", "w", "r", "r", "r"}
	var line []*harness.Call[*Lease]
	for i, kind := range kinds {
		w := r.w
		if i%2 == 0 {
			w = r.another()
		}
		if kind == "w" {
			line = append(line, r.joins(i+2, w.Lock))
		} else {
			line = append(line, r.joins(i+2, w.RLock))
		}
	}
	current := []*Lease{holder}
	for i := 0; i < len(line); {
		next := i + 1
		for kinds[i] == "r" && next < len(line) && kinds[next] == "r" {
			next++
		}
		for _, l := range current {
			require.True(t, line[i].Waiting())
			require.NoError(t, l.Release())
		}
		current = nil
		for _, a := range line[i:next] {
			current = append(current, a.Get())
		}
		for _, a := range line[next:] {
			require.True(t, a.Waiting())
		}
		i = next
	}
	for _, l := range current {
		require.NoError(t, l.Release())
	}
	r.queued(0)
}

func TestA11TryLosersOfEitherSideLeaveNothing(t *testing.T) {
	r := newRWRig(t, nil)
	var writers, readers, held, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		w := r.another()
		wg.Go(func() {
			for range 50 {
				try, inside := w.TryRLock, &readers
				if i%2 == 0 {
					try, inside = w.TryLock, &writers
				}
				l, err := try(r.ctx)
				if errors.Is(err, ErrLocked) {
					lost.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(1)
				if writers.Load() > 0 && (n > 1 || readers.Load() > 0) {
					t.Error("somebody beside a writer")
				}
				held.Add(1)
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NotZero(t, held.Load())
	require.NotZero(t, lost.Load())
	r.queued(0)

	// One that is not the first to know: it has joined, and leaves again.
	rule := r.p.On(opJoin, 1, harness.Hold)
	tried := make(chan error, 1)
	go func() { _, err := r.w.TryRLock(r.ctx); tried <- err }()
	r.p.Await(rule)
	writer := later(t, r.another().Lock)
	l := writer.Get()
	rule.Release()
	require.ErrorIs(t, harness.Receive(t, tried), ErrLocked)
	r.queued(1)
	require.NoError(t, l.Release())
}

func TestA13GoroutinesOnOneRWLockExcludeEachOther(t *testing.T) {
	r := newRWRig(t, nil)
	n := 0 // guarded by the lock, and watched by the race detector
	var last Token
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 10 {
				var err error
				if (i+j)%2 == 0 {
					err = r.w.RDo(r.ctx, func(context.Context, *Lease) error { _ = n; return nil })
				} else {
					err = r.w.Do(r.ctx, func(_ context.Context, l *Lease) error {
						n++
						if l.Token() <= last {
							t.Error("token went down")
						}
						last = l.Token()
						return nil
					})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 100, n)
	r.queued(0)
}

func TestA14EachSideIsUsableAfterEveryFailure(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		for name, f := range map[string]func(){
			"time-out": func() {
				l := held(t, r.rival.Lock)
				ctx, cancel := context.WithTimeout(r.ctx, 10*time.Millisecond)
				defer cancel()
				_, err := r.m.Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, l.Release())
			},
			"locked": func() {
				l := held(t, r.rival.Lock)
				_, err := r.m.TryLock(r.ctx)
				require.ErrorIs(t, err, ErrLocked)
				require.NoError(t, l.Release())
			},
			"evicted": func() {
				l := held(t, r.rival.Lock)
				a := r.waits(2)
				require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].name, -1))
				_, err := a.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.NoError(t, l.Release())
			},
			"lost": func() {
				l := held(t, r.m.Lock)
				r.p.Expire()
				harness.Cause(t, l.Context(r.ctx))
				require.ErrorIs(t, l.Release(), ErrLost)
			},
			"connection lost": func() {
				l := held(t, r.m.Lock)
				r.p.Drop()
				require.NoError(t, l.Release())
			},
			"ctx ended before": func() {
				ctx, cancel := context.WithCancel(r.ctx)
				cancel()
				_, err := r.m.Lock(ctx)
				require.ErrorIs(t, err, context.Canceled)
			},
			"panic": func() {
				require.PanicsWithValue(t, "oh", func() {
					r.m.Do(r.ctx, func(context.Context, *Lease) error { panic("oh") })
				})
			},
		} {
			f()
			require.NoError(t, r.m.Do(r.ctx, nothing), name)
			r.queued(0)
		}
	})
}

func TestA17EachSideKeepsTheFirstError(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			ctx, conn, path := harness.Within(t, 20*time.Second), harness.Raw(t), harness.NewPath(t)
			harness.MakeParents(t, conn, parent(path))
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll&^zk.PermDelete)) // no place can be deleted
			require.NoError(t, err)
			broken := errors.New("broken")
			err = side.ours(dial(t, nil), path).Do(ctx, func(context.Context, *Lease) error { return broken })
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, zk.ErrNoAuth, "and what became of the release")
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err = side.theirs(dial(t, nil), path).Lock(short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, zk.ErrNoAuth)
		})
	}
}

func TestA18EachSideSetsACLs(t *testing.T) {
	alice := Auth{Scheme: "digest", Data: []byte("alice:secret")}
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			path, user := harness.NewPath(t), harness.Raw(t)
			require.NoError(t, user.AddAuth(alice.Scheme, alice.Data))
			l := held(t, side.ours(dial(t, &Options{Auth: []Auth{alice}}), path).Lock)
			acl, _, err := user.GetACL(path)
			require.NoError(t, err)
			require.Equal(t, zk.DigestACL(zk.PermAll, "alice", "secret"), acl)
			acl, _, err = user.GetACL(l.Check().Path)
			require.NoError(t, err)
			require.Len(t, acl, 2)
			require.EqualValues(t, zk.PermRead|zk.PermWrite, acl[0].Perms, "the session's own")
			require.Equal(t, zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: "alice:x"}, acl[1])
			_, _, err = harness.Raw(t).Children(path)
			require.ErrorIs(t, err, zk.ErrNoAuth, "a stranger")
			require.NoError(t, l.Release())
		})
	}
}

func TestA19EachSideCreatesMissingParents(t *testing.T) {
	ctx, root := harness.Within(t, 20*time.Second), harness.NewPath(t)
	var wg sync.WaitGroup
	for i := range 20 { // at once, on paths that share missing parents
		side := sides[i%len(sides)]
		c := dial(t, nil)
		wg.Go(func() {
			// A mutex has a line of its own.
			if err := side.ours(c, fmt.Sprintf("%s/a/b/%t", root, side.kind == kindLock)).Do(ctx, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Part B.
