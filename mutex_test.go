package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// What users of other lock libraries rely on. The names say the row.

func TestA05WorksUnderAPrefix(t *testing.T) {
	r := newRig(t, nil)
	prefixed := dial(t, &Options{Prefix: r.path + "/app"})
	m := NewMutex(prefixed, "/locks/orders")
	l := lockOn(t, m)
	require.Len(t, harness.Children(t, r.raw, r.path+"/app/locks/orders"), 1)
	require.Equal(t, r.path+"/app/locks/orders/"+harness.Children(t, r.raw, r.path+"/app/locks/orders")[0], l.Check().Path)

	rs, err := l.Commit(r.ctx,
		&zk.CreateRequest{Path: "/locks/data", Data: []byte("1")},
		&zk.CreateRequest{Path: "/locks/seq-", Flags: zk.FlagSequence})
	require.NoError(t, err)
	require.Equal(t, "/locks/data", rs[0].String)
	require.Equal(t, "/locks/seq-0000000002", rs[1].String, "the line itself was the first")
	data, _, err := l.Get(r.ctx, "/locks/data")
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
	names, _, err := l.Children(r.ctx, "/")
	require.NoError(t, err)
	require.Equal(t, []string{"locks"}, names)
	require.NoError(t, l.Release())
	_, err = NewMutex(prefixed, "bad").Lock(r.ctx)
	require.EqualError(t, err, `zkrecipes: lock bad: path does not begin with "/"`)
}

func TestA06ReentryRacingTheLastReleaseHoldsOrFails(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		for range 100 {
			l := held(t, r.m.Lock)
			ctx := l.Reentrant(r.ctx)
			var wg sync.WaitGroup
			wg.Go(func() { require.NoError(t, l.Release()) })
			again, err := r.m.Lock(ctx)
			if err == nil {
				_, err := again.Commit(r.ctx) // the place must be there
				require.NoError(t, err)
				require.NoError(t, again.Release())
			} else {
				require.ErrorIs(t, err, ErrReleased)
			}
			wg.Wait()
		}
		r.queued(0)
	})
}

func TestA10WaitersAreGrantedInOrder(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	order := make(chan int, 5)
	var wg sync.WaitGroup
	for i := range 5 {
		m := NewMutex(dial(t, nil), r.path)
		wg.Go(func() {
			err := m.Do(r.ctx, func(context.Context, *Lease) error { order <- i; return nil })
			if err != nil {
				t.Error(err)
			}
		})
		r.queued(i + 2)
	}
	require.NoError(t, l.Release())
	wg.Wait()
	for i := range 5 {
		require.Equal(t, i, <-order)
	}
}

func TestA11TryLocksLoserLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	var held, lost atomic.Int32
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		m := NewMutex(dial(t, nil), r.path)
		wg.Go(func() {
			for range 50 {
				l, err := m.TryLock(r.ctx)
				if errors.Is(err, ErrLocked) {
					lost.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two inside")
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
}

func TestA13GoroutinesOnOneMutexExcludeEachOther(t *testing.T) {
	r := newRig(t, nil)
	n := 0 // guarded by the lock, and watched by the race detector
	var last Token
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 10 {
				err := r.m.Do(r.ctx, func(_ context.Context, l *Lease) error {
					n++
					if l.Token() <= last {
						t.Error("token went down")
					}
					last = l.Token()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 200, n)
	r.queued(0)
}

func TestA15ContendersAreListedInOrder(t *testing.T) {
	r := newRig(t, nil)
	none, err := NewMutex(r.c, r.path+"-none").Contenders(r.ctx)
	require.NoError(t, err)
	require.Empty(t, none)

	began := time.Now().Add(-time.Minute)
	var leases []*harness.Call[*Lease]
	for i := range 3 {
		c := dial(t, &Options{Identity: fmt.Sprint("worker ", i)})
		leases = append(leases, lockLater(t, NewMutex(c, r.path)))
		r.queued(i + 1)
	}
	foreign := r.byHand("_c_0f0e0d0c0b0a09080706050403020100-lock-")
	_, err = r.raw.Create(r.path+"/stranger", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	cs, err := r.m.Contenders(r.ctx)
	require.NoError(t, err)
	require.Len(t, cs, 4)
	for i, c := range cs[:3] {
		require.Equal(t, fmt.Sprint("worker ", i), c.Identity)
		require.Equal(t, i == 0, c.Held)
		require.NotZero(t, c.Session)
		require.WithinRange(t, c.Since, began, time.Now().Add(time.Minute))
	}
	require.Equal(t, "by hand", cs[3].Identity)
	require.Equal(t, r.path+"/"+cs[3].Place, foreign)
	require.Equal(t, leases[0].Get().Token(), cs[0].Token)
	require.NoError(t, r.raw.Delete(r.path+"/stranger", -1))
	for _, a := range leases {
		require.NoError(t, a.Get().Release())
	}
	require.NoError(t, r.raw.Delete(foreign, -1))
}

func TestA17TheFirstErrorIsKeptWhenCleaningUpFailsToo(t *testing.T) {
	// Without DELETE on the line no place can be deleted.
	acl := zk.WorldACL(zk.PermAll &^ zk.PermDelete)
	r := newRig(t, nil)
	path := r.path + "/stuck"
	harness.MakeParents(t, r.raw, parent(path))
	_, err := r.raw.Create(path, nil, 0, acl)
	require.NoError(t, err)
	m := NewMutex(dial(t, nil), path)
	l := lockOn(t, m)
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = m.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, zk.ErrNoAuth)

	broken := errors.New("broken")
	err = m.Do(l.Reentrant(r.ctx), func(context.Context, *Lease) error {
		require.ErrorIs(t, l.Release(), nil)
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, zk.ErrNoAuth, "and what became of the release")
}

func TestA18ACLsAreSetOnLineAndPlaces(t *testing.T) {
	r := newRig(t, nil)
	alice := Auth{Scheme: "digest", Data: []byte("alice:secret")}
	for name, opts := range map[string]*Options{
		"default with credentials": {Auth: []Auth{alice}},
		"given":                    {Auth: []Auth{alice}, ACL: zk.DigestACL(zk.PermAll, "alice", "secret")},
		"scheme auth":              {Auth: []Auth{alice}, ACL: zk.AuthACL(zk.PermAll)},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.NewPath(t)
			m := NewMutex(dial(t, opts), path)
			l := lockOn(t, m)
			user := harness.Raw(t)
			require.NoError(t, user.AddAuth(alice.Scheme, alice.Data))
			acl, _, err := user.GetACL(path)
			require.NoError(t, err)
			require.Equal(t, zk.DigestACL(zk.PermAll, "alice", "secret"), acl)
			acl, _, err = user.GetACL(l.Check().Path)
			require.NoError(t, err)
			require.Len(t, acl, 2)
			require.EqualValues(t, zk.PermRead|zk.PermWrite, acl[0].Perms)
			// Without ADMIN the server shows no more of a digest than the user.
			require.Equal(t, zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: "alice:x"}, acl[1])
			_, _, err = r.raw.Children(path)
			require.ErrorIs(t, err, zk.ErrNoAuth, "a stranger")
			require.NoError(t, l.Release())
			require.NoError(t, NewMutex(dial(t, opts), path).Do(r.ctx, nothing), "another client of the same user")
		})
	}
}

func TestA19MissingParentsAreCreated(t *testing.T) {
	r := newRig(t, nil)
	c := dial(t, &Options{Prefix: harness.NewPath(t) + "/x/y"})
	require.NoError(t, NewMutex(c, "/deep/down/lock").Do(r.ctx, nothing))

	// Twenty clients at once, on paths that share missing parents.
	root := harness.NewPath(t)
	var wg sync.WaitGroup
	for i := range 20 {
		c := dial(t, nil)
		wg.Go(func() {
			if err := NewMutex(c, fmt.Sprintf("%s/a/b/c/%d", root, i%3)).Do(r.ctx, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAWaitingLockHasFewGoroutinesAndSendsNothing(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	first := lockLater(t, r.m)
	r.asleep(1) // the probe has been asked, too
	harness.Eventually(t, "asleep", r.c.idle)
	before := harness.SettledGoroutines(t)
	const n = 50
	r.p.Reset()
	var waiters []*harness.Call[*Lease]
	for range n {
		waiters = append(waiters, lockLater(t, r.m))
	}
	r.queued(n + 2)
	// Each watches its own place; the predecessor's watch is the session's already.
	harness.Eventually(t, "asleep", func() bool { return r.p.CountOf("getData") >= n && r.c.idle() })
	perWaiter := float64(harness.SettledGoroutines(t)-before) / n
	t.Logf("goroutines per waiting Lock: %.2f", perWaiter)
	require.LessOrEqual(t, perWaiter, 3.0)

	r.p.Reset()
	idle := time.After(time.Second) // what is claimed is that nothing happens
	<-idle
	require.Empty(t, r.p.Count())
	require.NoError(t, l.Release())
	require.NoError(t, first.Get().Release())
	for _, a := range waiters {
		a.Cancel(nil)
	}
	for _, a := range waiters {
		if l, err := a.Wait(); err == nil {
			require.NoError(t, l.Release())
		}
	}
	r.queued(0)
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
		r.p.Drop()
		if ms := r.inLine(); len(ms) > 6 { // the last one, who holds for certain not
			r.raw.Delete(r.path+"/"+ms[len(ms)-1].name, -1)
		}
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants", grants.Load())
	r.queued(0)
	harness.Eventually(t, "watches", func() bool { return watchesOf(r.c) == 0 })
}
