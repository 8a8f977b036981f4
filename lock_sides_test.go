package zkrecipes

import (
	"context"
	"errors"
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
)

// What users of lock libraries rely on, for each side of the locks.

func TestA01DoHoldsEachSideWhileItsFunctionRuns(t *testing.T) {
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

func TestRealA05EachSideWorksUnderAPrefix(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			root, ctx, conn := harness.NewPath(t), harness.Within(t, 20*time.Second), harness.Raw(t)
			c := dial(t, &Options{Prefix: root + "/app"})
			m := side.ours(c, "/locks/orders") // its parents do not exist yet
			l := held(t, m.Lock)
			places := harness.Children(t, conn, root+"/app/locks/orders")
			require.Len(t, places, 1)
			require.Equal(t, root+"/app/locks/orders/"+places[0], l.Check().Path)

			rs, err := l.Commit(ctx,
				OpCreate("/locks/data", []byte("1"), 0, nil),
				OpCreate("/locks/seq-", nil, zk.FlagSequence, nil))
			require.NoError(t, err)
			require.Equal(t, "/locks/data", rs[0].Path)
			require.Equal(t, "/locks/seq-0000000002", rs[1].Path, "the parent's first child was the line")
			data, _, err := l.Get(ctx, "/locks/data")
			require.NoError(t, err)
			require.Equal(t, "1", string(data))
			names, _, err := l.Children(ctx, "/")
			require.NoError(t, err)
			require.Equal(t, []string{"locks"}, names)

			_, err = side.theirs(dial(t, nil), root+"/app/locks/orders").TryLock(ctx)
			require.ErrorIs(t, err, ErrLocked)
			cs, err := m.Contenders(ctx)
			require.NoError(t, err)
			require.Len(t, cs, 1)
			require.NoError(t, l.Release())
			_, err = side.ours(c, "bad").Lock(ctx)
			require.ErrorContains(t, err, `lock bad: path does not begin with "/"`)
		})
	}
}

func TestA06OnEachSideTheLastReleaseFreesTheLock(t *testing.T) {
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
		require.ErrorIs(t, err, ErrReleased, "it is the context of the released lease")
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

func TestA07OnEachSideAHoldersContextReturnsErrDeadlockAtOnce(t *testing.T) {
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
		if r.kind.Exclusive() { // else see TestA23ReadLockWithAReadersContextIsADeadlockError
			_, err := r.m.TryLock(ctx)
			require.ErrorIs(t, err, ErrLocked)
		}
		require.Empty(t, r.p.Count())
		require.NoError(t, r.ours(r.c, r.path+"-elsewhere").Do(ctx, nothing), "another lock is no deadlock")
		require.NoError(t, l.Release())
		require.NoError(t, r.m.Do(context.WithoutCancel(ctx), nothing), "the lock is not held any more")
	})
}

func TestA08OthersDoNotEnterWithAHolderOfEitherSide(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		same := r.theirs(r.c, r.path) // in the holder's session, but without its context
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

// kindsOfLock are the kinds of lock, each with a letter that stands for it.
var kindsOfLock = map[rune]func(*Client, string) locker{'m': mutex, 'w': writer, 'r': reader}

// A line is served in order, adjacent readers together. Every second waiter has a
// session of its own.
func TestRealA10LinesAreServedInOrder(t *testing.T) {
	for name, line := range map[string]string{"mutexes": "mmmmmm", "writers and readers": "wwrrwwrwrrr"} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, ctx: harness.Within(t, 30*time.Second), path: harness.NewPath(t), raw: harness.Raw(t), c: dial(t, nil)}
			kinds := []rune(line)
			lock := func(i int) locker {
				c := r.c
				if i%2 == 1 {
					c = dial(t, nil)
				}
				return kindsOfLock[kinds[i]](c, r.path)
			}
			current := []*Lease{held(t, lock(0).Lock)}
			waiters := make([]*harness.Call[*Lease], len(kinds))
			for i := 1; i < len(kinds); i++ {
				waiters[i] = later(t, lock(i).Lock)
				r.queued(i + 1)
			}
			for i := 1; i < len(kinds); {
				next := i + 1
				for kinds[i] == 'r' && next < len(kinds) && kinds[next] == 'r' {
					next++
				}
				for _, l := range current {
					require.True(t, waiters[i].Waiting())
					require.NoError(t, l.Release())
				}
				current = nil
				for _, a := range waiters[i:next] {
					current = append(current, a.Get())
				}
				for _, a := range waiters[next:] {
					require.True(t, a.Waiting())
				}
				i = next
			}
			for _, l := range current {
				require.NoError(t, l.Release())
			}
			r.queued(0)
		})
	}
}

func TestA11LosersOfTryLockLeaveNothing(t *testing.T) {
	for name, kinds := range map[string]string{"mutexes": "mmmm", "writers and readers": "wrwrwr"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			path := r.path + "-tried"
			var excluders, readers, held, lost atomic.Int32
			var wg sync.WaitGroup
			dialed := make(chan struct{}) // closed when all are, so that they do contend
			for _, kind := range kinds {
				m, inside := kindsOfLock[kind](dial(t, nil), path), &excluders
				if kind == 'r' {
					inside = &readers
				}
				wg.Go(func() {
					<-dialed
					for tries := 0; tries < 50 || lost.Load() == 0; tries++ { // an error ends it, too
						l, err := m.TryLock(r.ctx)
						if errors.Is(err, ErrLocked) {
							lost.Add(1)
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						n := inside.Add(1)
						if excluders.Load() > 0 && (n > 1 || readers.Load() > 0) {
							t.Error("rivals hold the lock together")
						}
						held.Add(1)
						inside.Add(-1)
						if err := l.Release(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			close(dialed)
			wg.Wait()
			require.NotZero(t, held.Load())
			require.NotZero(t, lost.Load())
			harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.raw, path)) == 0 }) // a loser leaves in the background
		})
	}
}

// TryLock has seen a free lock and joins, but another client's place is ahead. It
// leaves again.
func TestA11LosersOfTryLockThatHaveJoinedLeaveNothing(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		rule := r.p.On(opJoin, 1, harness.Hold)
		tried := later(t, r.m.TryLock)
		r.p.Await(rule)
		l := held(t, r.rival.Lock)
		rule.Release()
		_, err := tried.Wait()
		require.ErrorIs(t, err, ErrLocked)
		r.queued(1)
		require.NoError(t, l.Release())
	})
}

func TestRealA13GoroutinesOnOneLockExcludeEachOther(t *testing.T) {
	for name, reads := range map[string]func(i int) bool{
		"mutex":               func(int) bool { return false },
		"writers":             func(int) bool { return false },
		"writers and readers": func(i int) bool { return i%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			path := r.path + "-shared"
			m, other := writer(r.c, path), reader(r.c, path)
			if name == "mutex" {
				m = mutex(r.c, path)
			}
			n, want := 0, 0 // the lock guards n, and the race detector checks it
			var last Token
			var wg sync.WaitGroup
			for i := range 20 {
				for j := range 10 {
					if !reads(i + j) {
						want++
					}
				}
				wg.Go(func() {
					for j := range 10 {
						var err error
						if reads(i + j) {
							err = other.Do(r.ctx, func(context.Context, *Lease) error { _ = n; return nil })
						} else {
							err = m.Do(r.ctx, func(_ context.Context, l *Lease) error {
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
			require.Equal(t, want, n)
			require.Empty(t, harness.Children(t, r.raw, path))
		})
	}
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
				require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].Name, -1))
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

func TestA17EachSideKeepsTheFirstErrorWhenCleaningUpFailsToo(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			ctx, conn, path, broken := harness.Within(t, 20*time.Second), harness.Raw(t), harness.NewPath(t), errors.New("broken")
			harness.MakeParents(t, conn, zkconn.Parent(path))
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll&^zk.PermDelete)) // no place can be deleted
			require.NoError(t, err)
			c := dial(t, nil)
			m := side.ours(c, path)
			l := held(t, m.Lock)
			for _, rival := range []locker{side.theirs(c, path), side.theirs(dial(t, nil), path)} {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				_, err = rival.Lock(short)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zk.ErrNoAuth)
			}
			err = m.Do(l.Reentrant(ctx), func(context.Context, *Lease) error {
				require.NoError(t, l.Release())
				return broken
			})
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, zk.ErrNoAuth, "the release's own error is joined")
		})
	}
}

func TestRealA18EachSideSetsACLsOnLineAndPlaces(t *testing.T) {
	alice := Auth{Scheme: "digest", Data: []byte("alice:secret")}
	for name, opts := range map[string]*Options{
		"default with credentials": {Auth: []Auth{alice}},
		"given":                    {Auth: []Auth{alice}, ACL: zk.DigestACL(zk.PermAll, "alice", "secret")},
		"scheme auth":              {Auth: []Auth{alice}, ACL: zk.AuthACL(zk.PermAll)},
	} {
		for _, side := range sides {
			t.Run(name+"/"+side.name, func(t *testing.T) {
				path, user, ctx := harness.NewPath(t), harness.Raw(t), harness.Within(t, 20*time.Second)
				require.NoError(t, user.AddAuth(alice.Scheme, alice.Data))
				l := held(t, side.ours(dial(t, opts), path).Lock)
				own := zk.DigestACL(zk.PermAll&^zk.PermWrite, "alice", "secret")[0]
				for _, p := range []string{path, l.Check().Path} {
					acl, _, err := user.GetACL(p)
					require.NoError(t, err)
					require.Len(t, acl, 2)
					require.Equal(t, own, acl[0])
					require.EqualValues(t, zk.PermWrite, acl[1].Perms, "the library's entry")
					require.True(t, strings.HasPrefix(acl[1].ID, "zkrecipes:"), acl[1].ID)
				}
				_, _, err := harness.Raw(t).Children(path)
				require.ErrorIs(t, err, zk.ErrNoAuth, "a client without credentials")
				require.NoError(t, l.Release())
				require.NoError(t, side.theirs(dial(t, opts), path).Do(ctx, nothing), "another client of the same user")
			})
		}
	}
}

func TestA19EachSideCreatesMissingParents(t *testing.T) {
	ctx, root := harness.Within(t, 20*time.Second), harness.NewPath(t)
	for _, side := range sides {
		c := dial(t, &Options{Prefix: harness.NewPath(t) + "/x/y"})
		require.NoError(t, side.ours(c, "/deep/down/lock").Do(ctx, nothing))
	}
	var wg sync.WaitGroup
	for i := range 20 { // at once, on paths that share missing parents
		side := sides[i%len(sides)]
		c := dial(t, nil)
		wg.Go(func() {
			// A mutex and a read/write lock cannot share a line.
			path := fmt.Sprintf("%s/a/b/c/%t%d", root, side.kind == line.KindLock, i%3)
			if err := side.ours(c, path).Do(ctx, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
