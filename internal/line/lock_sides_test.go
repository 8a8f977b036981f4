package line_test

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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What users of lock libraries rely on, for each side of the locks.

func TestA01DoHoldsEachSideWhileItsFunctionRuns(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		broken := errors.New("broken")
		err := r.M.Do(r.Ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
			require.NoError(t, l.Err())
			_, err := r.Rival.TryLock(r.Ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			return broken
		})
		require.Equal(t, broken, err)
		require.PanicsWithValue(t, "oh", func() {
			r.M.Do(r.Ctx, func(context.Context, *zkrecipes.Lease) error { panic("oh") })
		})
		require.NoError(t, r.Rival.Do(r.Ctx, recipetest.Nothing))
		r.Queued(0)
	})
}

func TestRealA05EachSideWorksUnderAPrefix(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			root, ctx, conn := harness.NewPath(t), harness.Within(t, 20*time.Second), harness.Raw(t)
			c := recipetest.Dial(t, &zkrecipes.Options{Prefix: root + "/app"})
			m := side.Ours(c, "/locks/orders") // its parents do not exist yet
			l := recipetest.Held(t, m.Lock)
			places := harness.Children(t, conn, root+"/app/locks/orders")
			require.Len(t, places, 1)
			require.Equal(t, root+"/app/locks/orders/"+places[0], l.Check().Path)

			rs, err := l.Commit(ctx,
				zkrecipes.OpCreate("/locks/data", []byte("1"), 0, nil),
				zkrecipes.OpCreate("/locks/seq-", nil, zk.FlagSequence, nil))
			require.NoError(t, err)
			require.Equal(t, "/locks/data", rs[0].Path)
			require.Equal(t, "/locks/seq-0000000002", rs[1].Path, "the parent's first child was the line")
			data, _, err := l.Get(ctx, "/locks/data")
			require.NoError(t, err)
			require.Equal(t, "1", string(data))
			names, _, err := l.Children(ctx, "/")
			require.NoError(t, err)
			require.Equal(t, []string{"locks"}, names)

			_, err = side.Theirs(recipetest.Dial(t, nil), root+"/app/locks/orders").TryLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			cs, err := m.Contenders(ctx)
			require.NoError(t, err)
			require.Len(t, cs, 1)
			require.NoError(t, l.Release())
			_, err = side.Ours(c, "bad").Lock(ctx)
			require.ErrorContains(t, err, `lock bad: path does not begin with "/"`)
		})
	}
}

func TestA06OnEachSideTheLastReleaseFreesTheLock(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		ctx := l.Reentrant(r.Ctx)
		r.P.Reset()
		second, err := r.M.Lock(ctx)
		require.NoError(t, err)
		third, err := r.M.TryLock(second.Reentrant(ctx))
		require.NoError(t, err)
		require.Empty(t, r.P.Count())
		require.Equal(t, l.Token(), third.Token())
		work := second.Context(r.Ctx)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		require.NoError(t, second.Err())
		require.NoError(t, work.Err())
		_, err = r.M.Lock(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrReleased, "it is the context of the released lease")
		require.NoError(t, second.Release())
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
		_, err = r.Rival.TryLock(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, third.Release())
		_, err = r.M.Lock(third.Reentrant(r.Ctx))
		require.ErrorIs(t, err, zkrecipes.ErrReleased)
		require.Equal(t, 1, recipetest.Sum(r.P.Count()), "the last release")
		require.NoError(t, r.Rival.Do(r.Ctx, recipetest.Nothing))
	})
}

func TestA07OnEachSideAHoldersContextReturnsErrDeadlockAtOnce(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		ctx := l.Context(r.Ctx)
		r.P.Reset()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := r.M.Lock(context.WithValue(ctx, t, "derived")); !errors.Is(err, zkrecipes.ErrDeadlock) {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		require.ErrorIs(t, r.M.Do(ctx, recipetest.Nothing), zkrecipes.ErrDeadlock)
		require.ErrorContains(t, r.M.Do(ctx, recipetest.Nothing),
			"lock "+r.Path+": the caller holds this lock already (Lease.Reentrant lets it re-enter)")
		if r.Kind.Exclusive() { // else see TestA23ReadLockWithAReadersContextIsADeadlockError
			_, err := r.M.TryLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		}
		require.Empty(t, r.P.Count())
		require.NoError(t, r.Ours(r.C, r.Path+"-elsewhere").Do(ctx, recipetest.Nothing), "another lock is no deadlock")
		require.NoError(t, l.Release())
		require.NoError(t, r.M.Do(context.WithoutCancel(ctx), recipetest.Nothing), "the lock is not held any more")
	})
}

func TestA08OthersDoNotEnterWithAHolderOfEitherSide(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		same := r.Theirs(r.C, r.Path) // in the holder's session, but without its context
		a := r.Joins(2, same)
		require.True(t, a.Waiting())
		_, err := same.TryLock(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

func TestA09EachSideAndItsRivalHandOver(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		var last zkrecipes.Token
		for range 15 {
			l := recipetest.Held(t, r.M.Lock)
			a := r.Joins(2, r.Rival)
			require.True(t, a.Waiting())
			require.NoError(t, l.Release())
			b := a.Get()
			c := r.Joins(2, r.M)
			require.True(t, c.Waiting())
			require.NoError(t, b.Release())
			again := c.Get()
			require.NoError(t, again.Release())
			for _, l := range []*zkrecipes.Lease{l, b, again} {
				require.Greater(t, l.Token(), last)
				last = l.Token()
			}
		}
		r.Queued(0)
	})
}

// kindsOfLock are the kinds of lock, each with a letter that stands for it.
var kindsOfLock = map[rune]func(*zkrecipes.Client, string) recipetest.Locker{'m': recipetest.Mutex, 'w': recipetest.Writer, 'r': recipetest.Reader}

// A line is served in order, adjacent readers together. Every second waiter has a
// session of its own.
func TestRealA10LinesAreServedInOrder(t *testing.T) {
	for name, line := range map[string]string{"mutexes": "mmmmmm", "writers and readers": "wwrrwwrwrrr"} {
		t.Run(name, func(t *testing.T) {
			r := &recipetest.Rig{T: t, Ctx: harness.Within(t, 30*time.Second), Path: harness.NewPath(t), Raw: harness.Raw(t), C: recipetest.Dial(t, nil)}
			kinds := []rune(line)
			lock := func(i int) recipetest.Locker {
				c := r.C
				if i%2 == 1 {
					c = recipetest.Dial(t, nil)
				}
				return kindsOfLock[kinds[i]](c, r.Path)
			}
			current := []*zkrecipes.Lease{recipetest.Held(t, lock(0).Lock)}
			waiters := make([]*harness.Call[*zkrecipes.Lease], len(kinds))
			for i := 1; i < len(kinds); i++ {
				waiters[i] = recipetest.Later(t, lock(i).Lock)
				r.Queued(i + 1)
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
			r.Queued(0)
		})
	}
}

func TestA11LosersOfTryLockLeaveNothing(t *testing.T) {
	for name, kinds := range map[string]string{"mutexes": "mmmm", "writers and readers": "wrwrwr"} {
		t.Run(name, func(t *testing.T) {
			r := recipetest.NewRig(t, nil)
			path := r.Path + "-tried"
			var excluders, readers, held, lost atomic.Int32
			var wg sync.WaitGroup
			dialed := make(chan struct{}) // closed when all are, so that they do contend
			for _, kind := range kinds {
				m, inside := kindsOfLock[kind](recipetest.Dial(t, nil), path), &excluders
				if kind == 'r' {
					inside = &readers
				}
				wg.Go(func() {
					<-dialed
					for tries := 0; tries < 50 || lost.Load() == 0; tries++ { // an error ends it, too
						l, err := m.TryLock(r.Ctx)
						if errors.Is(err, zkrecipes.ErrLocked) {
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
			harness.Eventually(t, "an empty line", func() bool { return len(harness.Children(t, r.Raw, path)) == 0 }) // a loser leaves in the background
		})
	}
}

// TryLock has seen a free lock and joins, but another client's place is ahead. It
// leaves again.
func TestA11LosersOfTryLockThatHaveJoinedLeaveNothing(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		rule := r.P.On(recipetest.OpJoin, 1, harness.Hold)
		tried := recipetest.Later(t, r.M.TryLock)
		r.P.Await(rule)
		l := recipetest.Held(t, r.Rival.Lock)
		rule.Release()
		_, err := tried.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		r.Queued(1)
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
			r := recipetest.NewRig(t, nil)
			path := r.Path + "-shared"
			m, other := recipetest.Writer(r.C, path), recipetest.Reader(r.C, path)
			if name == "mutex" {
				m = recipetest.Mutex(r.C, path)
			}
			n, want := 0, 0 // the lock guards n, and the race detector checks it
			var last zkrecipes.Token
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
							err = other.Do(r.Ctx, func(context.Context, *zkrecipes.Lease) error { _ = n; return nil })
						} else {
							err = m.Do(r.Ctx, func(_ context.Context, l *zkrecipes.Lease) error {
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
			require.Empty(t, harness.Children(t, r.Raw, path))
		})
	}
}

func TestA14EachSideIsUsableAfterEveryFailure(t *testing.T) {
	t.Parallel()
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		for name, f := range map[string]func(){
			"time-out": func() {
				l := recipetest.Held(t, r.Rival.Lock)
				ctx, cancel := context.WithTimeout(r.Ctx, 10*time.Millisecond)
				defer cancel()
				_, err := r.M.Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, l.Release())
			},
			"locked": func() {
				l := recipetest.Held(t, r.Rival.Lock)
				_, err := r.M.TryLock(r.Ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				require.NoError(t, l.Release())
			},
			"evicted": func() {
				l := recipetest.Held(t, r.Rival.Lock)
				a := r.Waits(2)
				require.NoError(t, r.Raw.Delete(r.Path+"/"+r.InLine()[1].Name, -1))
				_, err := a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrEvicted)
				require.NoError(t, l.Release())
			},
			"lost": func() {
				l := recipetest.Held(t, r.M.Lock)
				r.P.Expire()
				harness.Cause(t, l.Context(r.Ctx))
				require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
			},
			"connection lost": func() {
				l := recipetest.Held(t, r.M.Lock)
				r.P.Drop()
				require.NoError(t, l.Release())
			},
			"ctx ended before": func() {
				ctx, cancel := context.WithCancel(r.Ctx)
				cancel()
				_, err := r.M.Lock(ctx)
				require.ErrorIs(t, err, context.Canceled)
			},
			"panic": func() {
				require.PanicsWithValue(t, "oh", func() {
					r.M.Do(r.Ctx, func(context.Context, *zkrecipes.Lease) error { panic("oh") })
				})
			},
		} {
			f()
			require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing), name)
			r.Queued(0)
		}
	})
}

func TestA17EachSideKeepsTheFirstErrorWhenCleaningUpFailsToo(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			ctx, conn, path, broken := harness.Within(t, 20*time.Second), harness.Raw(t), harness.NewPath(t), errors.New("broken")
			harness.MakeParents(t, conn, zkconn.Parent(path))
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll&^zk.PermDelete)) // no place can be deleted
			require.NoError(t, err)
			c := recipetest.Dial(t, nil)
			m := side.Ours(c, path)
			l := recipetest.Held(t, m.Lock)
			for _, rival := range []recipetest.Locker{side.Theirs(c, path), side.Theirs(recipetest.Dial(t, nil), path)} {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				_, err = rival.Lock(short)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zk.ErrNoAuth)
			}
			err = m.Do(l.Reentrant(ctx), func(context.Context, *zkrecipes.Lease) error {
				require.NoError(t, l.Release())
				return broken
			})
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, zk.ErrNoAuth, "the release's own error is joined")
		})
	}
}

func TestRealA18EachSideSetsACLsOnLineAndPlaces(t *testing.T) {
	alice := zkrecipes.Auth{Scheme: "digest", Data: []byte("alice:secret")}
	for name, opts := range map[string]*zkrecipes.Options{
		"default with credentials": {Auth: []zkrecipes.Auth{alice}},
		"given":                    {Auth: []zkrecipes.Auth{alice}, ACL: zk.DigestACL(zk.PermAll, "alice", "secret")},
		"scheme auth":              {Auth: []zkrecipes.Auth{alice}, ACL: zk.AuthACL(zk.PermAll)},
	} {
		for _, side := range recipetest.Sides {
			t.Run(name+"/"+side.Name, func(t *testing.T) {
				path, user, ctx := harness.NewPath(t), harness.Raw(t), harness.Within(t, 20*time.Second)
				require.NoError(t, user.AddAuth(alice.Scheme, alice.Data))
				l := recipetest.Held(t, side.Ours(recipetest.Dial(t, opts), path).Lock)
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
				require.NoError(t, side.Theirs(recipetest.Dial(t, opts), path).Do(ctx, recipetest.Nothing), "another client of the same user")
			})
		}
	}
}

func TestA19EachSideCreatesMissingParents(t *testing.T) {
	ctx, root := harness.Within(t, 20*time.Second), harness.NewPath(t)
	for _, side := range recipetest.Sides {
		c := recipetest.Dial(t, &zkrecipes.Options{Prefix: harness.NewPath(t) + "/x/y"})
		require.NoError(t, side.Ours(c, "/deep/down/lock").Do(ctx, recipetest.Nothing))
	}
	var wg sync.WaitGroup
	for i := range 20 { // at once, on paths that share missing parents
		side := recipetest.Sides[i%len(recipetest.Sides)]
		c := recipetest.Dial(t, nil)
		wg.Go(func() {
			// A mutex and a read/write lock cannot share a line.
			path := fmt.Sprintf("%s/a/b/c/%t%d", root, side.Kind == placename.KindLock, i%3)
			if err := side.Ours(c, path).Do(ctx, recipetest.Nothing); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
