package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// What holds for every lock, for each way to hold one. The names say the row;
// what the mutex alone shows is in the other files.

// locker is what the locks and their sides have in common.
type locker interface {
	Lock(context.Context) (*Lease, error)
	TryLock(context.Context) (*Lease, error)
	Do(context.Context, func(context.Context, *Lease) error) error
	Contenders(context.Context) ([]Contender, error)
}

// reading is an RWLock's other side.
type reading struct{ *RWLock }

func (w reading) Lock(ctx context.Context) (*Lease, error)    { return w.RLock(ctx) }
func (w reading) TryLock(ctx context.Context) (*Lease, error) { return w.TryRLock(ctx) }
func (w reading) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.RDo(ctx, f)
}

func mutex(c *Client, path string) locker  { return NewMutex(c, path) }
func writer(c *Client, path string) locker { return NewRWLock(c, path) }
func reader(c *Client, path string) locker { return reading{NewRWLock(c, path)} }

// lineOf returns the line that a lock is about.
func lineOf(l locker) *line {
	switch l := l.(type) {
	case *Mutex:
		return l.line
	case *RWLock:
		return l.line
	case reading:
		return l.line
	}
	panic("a new lock")
}

// side is a way to hold a lock.
type side struct {
	name    string
	ours    func(*Client, string) locker
	theirs  func(*Client, string) locker // what it excludes, and is excluded by
	kind    kind                         // of its places
	release string                       // the request with which its holder leaves
	freed   string                       // the request with which a rival does
	by      string                       // what a place of a rival's is called by another library
}

var sides = []side{
	{"mutex", mutex, mutex, kindLock, opRelease, opRelease, "lock-"},
	{"writer", writer, writer, kindWrite, opRelease, opRelease, "_c_" + curatorUUID(0) + "-__WRIT__"},
	{"writer behind a reader", writer, reader, kindWrite, opRelease, opReadRelease, "_c_" + curatorUUID(0) + "-__READ__"},
	{"reader", reader, writer, kindRead, opReadRelease, opRelease, "_c_" + curatorUUID(0) + "-__WRIT__"},
}

// signalled reports whether a rival that leaves says so.
func (s side) signalled() bool { return s.freed == opRelease }

// sideRig is a rig for one side: m is in its client's session, rival in another.
type sideRig struct {
	*rig
	side
	m, rival locker
}

func eachSide(t *testing.T, f func(t *testing.T, r *sideRig)) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { f(t, side.rig(t, nil)) })
	}
}

// rig has the client use the line once.
func (s side) rig(t *testing.T, opts *Options) *sideRig {
	r := &sideRig{side: s, rig: &rig{t: t, ctx: within(t, 30*time.Second), path: newPath(t), p: newProxy(t, harness.shared[0]), raw: raw(t)}}
	r.c = dialTo(t, []string{r.p.addr()}, opts)
	r.m, r.rival = s.ours(r.c, r.path), s.theirs(dial(t, nil), r.path)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	r.p.reset()
	return r
}

func (r *sideRig) joins(n int, l locker) *attempt {
	r.t.Helper()
	a := later(r.t, l.Lock)
	r.queued(n)
	return a
}

// waits has the rig's own client wait behind n-1 others, asleep.
func (r *sideRig) waits(n int) *attempt {
	r.t.Helper()
	r.p.reset()
	a := r.joins(n, r.m)
	r.asleep(1)
	r.p.reset()
	return a
}

// watchesLeft waits until there are no more than n watches.
func (r *sideRig) watchesLeft(n int) {
	r.t.Helper()
	eventually(r.t, "watches", func() bool { return watchesOf(r.c) <= n })
}

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
		require.True(t, next.waiting())
		expire(r.p)
		b := next.granted()
		require.ErrorIs(t, waitFor(t, work), ErrLost)
		require.Greater(t, b.Token(), l.Token())
		require.NoError(t, b.Release())
	})
}

func TestA05EachSideWorksUnderAPrefix(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			prefix, ctx := newPath(t)+"/app", within(t, 20*time.Second)
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
		r.p.reset()
		second, err := r.m.Lock(ctx)
		require.NoError(t, err)
		third, err := r.m.TryLock(second.Reentrant(ctx))
		require.NoError(t, err)
		require.Empty(t, r.p.count())
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
		require.Equal(t, map[string]int{r.release: 1}, r.p.count())
		require.NoError(t, r.rival.Do(r.ctx, nothing))
	})
}

func TestA07OnEachSideAHoldersContextIsADeadlockAtOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		ctx := l.Context(r.ctx)
		r.p.reset()
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
		require.Empty(t, r.p.count())
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
		require.True(t, a.waiting())
		_, err := same.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.granted().Release())
	})
}

func TestA09EachSideAndItsRivalHandOver(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		var last Token
		for range 15 {
			l := held(t, r.m.Lock)
			a := r.joins(2, r.rival)
			require.True(t, a.waiting())
			require.NoError(t, l.Release())
			b := a.granted()
			c := r.joins(2, r.m)
			require.True(t, c.waiting())
			require.NoError(t, b.Release())
			again := c.granted()
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
	var line []*attempt
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
			require.True(t, line[i].waiting())
			require.NoError(t, l.Release())
		}
		current = nil
		for _, a := range line[i:next] {
			current = append(current, a.granted())
		}
		for _, a := range line[next:] {
			require.True(t, a.waiting())
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
	rule := r.p.on(opJoin, 1, hold)
	tried := make(chan error, 1)
	go func() { _, err := r.w.TryRLock(r.ctx); tried <- err }()
	r.p.await(rule)
	writer := later(t, r.another().Lock)
	l := writer.granted()
	rule.release()
	require.ErrorIs(t, outcome(t, tried), ErrLocked)
	r.queued(1)
	require.NoError(t, l.Release())
}

func TestA12TimedOutLocksOfEachSideLeaveNothing(t *testing.T) {
	const tries = 10_000
	eachSide(t, func(t *testing.T, r *sideRig) {
		ctx := within(t, time.Minute)
		l := held(t, r.rival.Lock)
		turns := make(chan struct{}, tries)
		for range tries {
			turns <- struct{}{}
		}
		close(turns)
		var timedOut atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range turns {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.N(4000))*time.Microsecond)
					_, err := r.m.Lock(ctx)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
						return
					}
					timedOut.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, tries, timedOut.Load())
		require.Greater(t, r.p.countOf(opJoin), tries/10, "many have stood in line")
		r.queued(1)
		r.watchesLeft(1) // on the holder's place
		s, _ := r.c.session()
		require.Empty(t, s.unresolved)
		require.Len(t, r.c.lines, 1)
		require.NoError(t, l.Release())
		r.watchesLeft(0)
		require.NoError(t, r.m.Do(ctx, nothing))
	})
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
				_, err := a.wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.NoError(t, l.Release())
			},
			"lost": func() {
				l := held(t, r.m.Lock)
				expire(r.p)
				waitFor(t, l.Context(r.ctx))
				require.ErrorIs(t, l.Release(), ErrLost)
			},
			"connection lost": func() {
				l := held(t, r.m.Lock)
				r.p.drop()
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

func TestA16ACancelledWaiterInTheMiddleOfAMixedLine(t *testing.T) {
	r := newRWRig(t, nil)
	t.Run("writers ahead and a reader behind", func(t *testing.T) {
		holder := held(t, r.another().Lock)
		middle := r.joins(2, r.another().Lock)
		r.p.reset()
		last := r.joins(3, r.w.RLock)
		r.asleep(1)
		r.p.reset()
		middle.cancel(nil)
		_, err := middle.wait()
		require.ErrorIs(t, err, context.Canceled)
		eventually(t, "the holder is the nearest now", func() bool { return r.p.countOf("getData") == 1 && r.c.idle() })
		require.Equal(t, map[string]int{"getChildren2": 1, "getData": 1}, r.p.count())
		require.True(t, last.waiting())
		require.NoError(t, holder.Release())
		require.NoError(t, last.granted().Release())
	})
	t.Run("a writer between readers", func(t *testing.T) {
		holder := held(t, r.another().RLock)
		middle := r.joins(2, r.another().Lock)
		last := r.joins(3, r.w.RLock)
		require.True(t, last.waiting())
		middle.cancel(nil)
		l := last.granted() // beside the other reader
		require.NoError(t, holder.Err())
		require.NoError(t, l.Release())
		require.NoError(t, holder.Release())
	})
	t.Run("a reader between writers", func(t *testing.T) {
		holder := held(t, r.another().Lock)
		middle := r.joins(2, r.another().RLock)
		last := r.joins(3, r.w.Lock)
		middle.cancel(nil)
		r.queued(2)
		require.True(t, last.waiting())
		require.NoError(t, holder.Release())
		require.NoError(t, last.granted().Release())
	})
}

func TestA17EachSideKeepsTheFirstError(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			ctx, conn, path := within(t, 20*time.Second), raw(t), newPath(t)
			makeParents(t, conn, parent(path))
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
			path, user := newPath(t), raw(t)
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
			_, _, err = raw(t).Children(path)
			require.ErrorIs(t, err, zk.ErrNoAuth, "a stranger")
			require.NoError(t, l.Release())
		})
	}
}

func TestA19EachSideCreatesMissingParents(t *testing.T) {
	ctx, root := within(t, 20*time.Second), newPath(t)
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

func TestB01EachSidesJoinWhoseReplyIsLostIsFound(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		for _, foreign := range []bool{false, true} {
			var ahead string
			n := 1
			if foreign {
				ahead, n = r.byHand(r.by), 2
			}
			r.p.reset()
			rule := r.p.on(opJoin, 1, dropAfter)
			a := later(t, r.m.Lock)
			r.p.await(rule)
			r.queued(n)
			if foreign {
				eventually(t, "asleep", func() bool { return r.p.countOf("getData") == 2 && r.c.idle() })
				require.True(t, a.waiting())
				require.NoError(t, r.raw.Delete(ahead, -1))
			}
			l := a.granted()
			require.Equal(t, 1, r.p.countOf(opJoin))
			require.Equal(t, 1, r.p.countOf("sync"))
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.EqualValues(t, stat.Czxid, l.Token())
			require.Len(t, r.inLine(), 1, "one place only")
			require.NoError(t, l.Release())
			r.queued(0)
			r.p.off(rule)
		}
	})
}

// What is asked for while there is no connection is done once there is one; in
// the next session, where this one ends before.
func TestB05WhatEachSideWantsWhileDisconnectedIsDoneInTheNextSession(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		old := sessionID(r.c)
		password := sessPassword(t, r.p, old)
		elsewhere := r.ours(r.c, r.path+"-elsewhere")
		released, lost := held(t, r.m.Lock), held(t, elsewhere.Lock)
		r.p.refusing(true)
		s, _ := r.c.session()
		sessAwaitDown(t, s)
		require.NoError(t, released.Release())
		var waiting []*attempt
		for range 3 {
			waiting = append(waiting, later(t, r.m.Lock))
		}
		tried := later(t, r.ours(r.c, r.path+"-tried").TryLock)
		committed := make(chan error, 1)
		go func() {
			_, err := lost.Commit(r.ctx, &zk.CreateRequest{Path: r.path + "-late"})
			committed <- err
		}()
		sessEnd(t, harness.shared[0], old, password)
		r.p.reset()
		r.p.refusing(false)
		require.ErrorIs(t, outcome(t, committed), ErrLost)
		for len(waiting) > 0 { // they have joined in any order
			i := -1
			eventually(t, "one is granted", func() bool {
				i = slices.IndexFunc(waiting, func(a *attempt) bool { return !a.waiting() })
				return i >= 0
			})
			l := waiting[i].granted()
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, sessionID(r.c), stat.EphemeralOwner)
			require.NotEqual(t, old, stat.EphemeralOwner)
			require.NoError(t, l.Release())
			waiting = slices.Delete(waiting, i, i+1)
		}
		require.NoError(t, tried.granted().Release())
		r.queued(0)
		require.Equal(t, 4, r.p.countOf(opJoin), "one each")
		require.Equal(t, 4, r.p.countOf(r.release), "none of the session that has ended")
		require.Zero(t, r.p.countOf("multi(check,create)"))
	})
}

func TestB06EachSidesReleaseGoesOnInTheBackground(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		rule := r.p.on(r.release, 1, dropBefore)
		l := held(t, r.m.Lock)
		require.NoError(t, l.Release())
		r.p.await(rule)
		require.ErrorIs(t, l.Err(), ErrReleased, "not held any more, whatever stands there")
		r.queued(0)
	})
}

func TestB07EachSidesReleaseWhoseReplyIsLostIsDone(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		a := r.joins(2, r.rival)
		r.p.reset()
		r.p.on(r.release, 1, dropAfter)
		require.NoError(t, l.Release())
		b := a.granted()
		eventually(t, "sent again", func() bool { return r.p.countOf(r.release) == 2 && r.c.idle() })
		_, err := b.Commit(r.ctx)
		require.NoError(t, err, "the second one touches nobody")
		require.NoError(t, b.Release())
	})
}

func TestB08EachSidesReleaseWhileDisconnectedReturnsAtOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		r.p.refusing(true)
		s, _ := r.c.session()
		eventually(t, "down", func() bool { up, _ := s.connected(); return !up })
		began := time.Now()
		require.NoError(t, l.Release())
		require.Less(t, time.Since(began), time.Second)
		r.queued(1)
		r.p.refusing(false)
		r.queued(0)
	})
}

func TestB09ExpiryEndsALeaseOfEachSide(t *testing.T) {
	t.Parallel()
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var e events
			r := side.rig(t, &Options{Trace: e.trace()})
			l := held(t, r.m.Lock)
			work := l.Context(r.ctx)
			expire(r.p)
			require.ErrorIs(t, waitFor(t, work), ErrLost)
			require.NoError(t, r.ctx.Err())
			require.ErrorIs(t, l.Err(), ErrLost)
			require.Zero(t, l.ValidUntil())
			_, err := l.Commit(r.ctx, &zk.CreateRequest{Path: r.path + "/late"})
			require.ErrorIs(t, err, ErrLost)
			_, _, err = l.Get(r.ctx, r.path)
			require.ErrorIs(t, err, ErrLost)
			_, err = r.m.Lock(l.Reentrant(r.ctx))
			require.ErrorIs(t, err, ErrLost)
			eventually(t, "told", func() bool { return e.count("lost") == 1 })

			// A session later: still lost, and nothing was taken again.
			require.NoError(t, r.ours(r.c, r.path+"-other").Do(r.ctx, nothing))
			require.ErrorIs(t, l.Err(), ErrLost)
			r.queued(0)
		})
	}
}

func TestB10EachSideJoinsAgainAtTheTail(t *testing.T) {
	t.Parallel()
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			trail := newTrail()
			r := side.rig(t, &Options{Trace: trail.trace()})
			holder := held(t, r.rival.Lock)
			a := r.waits(2)
			first := trail.nth(t, 1, "queued")
			expire(r.p)
			again := trail.nth(t, 2, "queued")
			require.NotEqual(t, first.Session, again.Session)
			r.queued(2)
			require.True(t, a.waiting())
			require.NoError(t, holder.Release())
			l := a.granted()
			require.Equal(t, again.Place, l.g.place().name)
			require.NoError(t, l.Release())
		})
	}
}

func TestB12EachSidesReleaseAfterExpiryTouchesNobody(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		next := r.joins(2, r.rival)
		expire(r.p)
		b := next.granted()
		waitFor(t, l.Context(r.ctx))
		require.ErrorIs(t, l.Release(), ErrLost)
		require.ErrorIs(t, l.Release(), ErrLost)
		_, err := b.Commit(r.ctx)
		require.NoError(t, err)
		require.Greater(t, b.Token(), l.Token())
		require.NoError(t, b.Release())
	})
}

func TestB13ReleasingEachSideTwiceIsReleasingOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		r.p.reset()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, l.Release())
		require.Equal(t, map[string]int{r.release: 1}, r.p.count())
	})
}

func TestB19OnEachSidePredecessorGoneBetweenListAndWatch(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		ahead := r.byHand(r.by)
		watch := r.p.on("getData", 2, hold) // the own place's is the first
		a := later(t, r.m.Lock)
		r.p.await(watch)
		require.NoError(t, r.raw.Delete(ahead, -1))
		watch.release()
		require.NoError(t, a.granted().Release())
	})
}

func TestB20OnEachSideAWaiterDiesInTheMiddle(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		first, middle := r.byHand(r.by), r.byHand(r.by)
		a := r.waits(3)
		require.NoError(t, r.raw.Delete(middle, -1))
		eventually(t, "new predecessor", func() bool { return r.p.countOf("getData") == 1 && r.c.idle() })
		require.True(t, a.waiting())
		require.NoError(t, r.raw.Delete(first, -1))
		require.NoError(t, a.granted().Release())
	})
}

func TestB21OnEachSidePredecessorGoneWhileDisconnected(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		ahead := r.byHand(r.by)
		a := r.waits(2)
		r.p.refusing(true)
		require.NoError(t, r.raw.Delete(ahead, -1))
		r.p.reset()
		r.p.refusing(false)
		l := a.granted()
		require.Equal(t, map[string]int{"setWatches": 1, "getChildren2": 1}, r.p.count())
		require.NoError(t, l.Release())
	})
}

func TestB22APlaceOfEachSideIsDeletedByAnOperator(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		t.Run("waiter", func(t *testing.T) {
			l := held(t, r.rival.Lock)
			a := r.waits(2)
			require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].name, -1))
			_, err := a.wait()
			require.ErrorIs(t, err, ErrEvicted)
			require.NoError(t, l.Release())
		})
		t.Run("waiter, before it looks", func(t *testing.T) {
			ahead := r.byHand(r.by)
			list := r.p.on("getChildren2", 1, hold)
			a := later(t, r.m.Lock)
			r.p.await(list)
			require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].name, -1))
			list.release()
			_, err := a.wait()
			require.ErrorIs(t, err, ErrEvicted)
			require.NoError(t, r.raw.Delete(ahead, -1))
			r.p.off(list)
		})
		t.Run("holder", func(t *testing.T) {
			l := held(t, r.m.Lock)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			_, err := l.Commit(r.ctx)
			require.ErrorIs(t, err, ErrLost, "the fence knows at once")
			require.ErrorIs(t, l.Err(), ErrLost)
		})
		t.Run("holder that releases", func(t *testing.T) {
			l := held(t, r.m.Lock)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, l.Release(), ErrLost)
		})
		t.Run("holder that hears of it", func(t *testing.T) {
			l := held(t, r.m.Lock)
			work := l.Context(r.ctx)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, waitFor(t, work), ErrLost) // a tenth of the timeout later
		})
		t.Run("holder that waited", func(t *testing.T) {
			ahead := r.byHand(r.by)
			a := r.joins(2, r.m)
			require.NoError(t, r.raw.Delete(ahead, -1))
			l := a.granted()
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, waitFor(t, l.Context(r.ctx)), ErrLost) // at once
			require.ErrorIs(t, l.Release(), ErrLost)
			r.queued(0)
		})
	})
}

func TestB23ALineOfBothKindsIsDeletedAndRecreated(t *testing.T) {
	r := newRWRig(t, nil)
	for i := range 6 {
		lock := r.another().Lock
		if i%2 == 1 {
			lock = r.another().RLock
		}
		holder := held(t, lock)
		work := holder.Context(r.ctx)
		var attempts []*attempt
		for j := range 4 {
			lock := r.another().Lock
			if j%2 == 0 {
				lock = r.another().RLock
			}
			attempts = append(attempts, r.joins(j+2, lock))
		}
		for { // as zkCli's deleteall does it
			for _, name := range children(t, r.raw, r.path) {
				r.raw.Delete(r.path+"/"+name, -1)
			}
			if err := r.raw.Delete(r.path, -1); err != zk.ErrNotEmpty {
				require.Contains(t, []error{nil, zk.ErrNoNode}, err)
				break
			}
		}
		l := held(t, r.w.Lock) // on a new line, with low numbers
		_, err := holder.Commit(r.ctx)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, waitFor(t, work), ErrLost)
		for _, a := range attempts {
			if b, err := a.wait(); err == nil {
				_, err = b.Commit(r.ctx)
				require.ErrorIs(t, err, ErrLost, "never beside the writer")
			} else {
				require.ErrorIs(t, err, ErrEvicted)
			}
		}
		require.NoError(t, l.Release())
		r.queued(0)
	}
}

func TestB28OnEachSideNoPlaceBeyondTheLimitIsGranted(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.c.last = 2 // a real counter takes two thousand million creates; the rig has used 0
		for range 2 {
			require.NoError(t, r.m.Do(r.ctx, nothing))
		}
		_, err := r.m.Lock(r.ctx)
		require.ErrorIs(t, err, ErrExhausted)
		_, err = r.m.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrExhausted)
		r.queued(0)
	})
}

func TestB32CancellingEachSideAtEveryStep(t *testing.T) {
	for _, step := range []struct {
		name, op string
		at       action
		blocked  bool // somebody is ahead
	}{
		{"before the join is applied", opJoin, hold, false},
		{"before the join is answered", opJoin, holdReply, false},
		{"while listing", "getChildren2", hold, true},
		{"while the listing is answered", "getChildren2", holdReply, true},
		{"while arming", "getData", hold, true},
		{"while the watch is answered", "getData", holdReply, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			eachSide(t, func(t *testing.T, r *sideRig) {
				want := 0
				if step.blocked {
					defer r.raw.Delete(r.byHand(r.by), -1)
					want = 1
				}
				rule := r.p.on(step.op, 1, step.at)
				a := later(t, r.m.Lock)
				r.p.await(rule)
				a.cancel(nil)
				_, err := a.wait() // while nothing is answered
				require.ErrorIs(t, err, context.Canceled)
				rule.release()
				eventually(t, "idle", r.c.idle)
				r.queued(want)
				r.watchesLeft(want)
			})
		})
	}
	t.Run("before it is sent", func(t *testing.T) {
		eachSide(t, func(t *testing.T, r *sideRig) {
			ctx, cancel := context.WithCancel(r.ctx)
			cancel()
			_, err := r.m.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			_, err = r.m.TryLock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, r.p.count())
		})
	})
	t.Run("racing the grant", func(t *testing.T) {
		eachSide(t, func(t *testing.T, r *sideRig) {
			for range 40 {
				l := held(t, r.rival.Lock)
				a := r.joins(2, r.m)
				go a.cancel(nil)
				require.NoError(t, l.Release())
				if l, err := a.wait(); err == nil {
					_, err := l.Commit(r.ctx)
					require.NoError(t, err)
					require.NoError(t, l.Release())
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				r.queued(0)
			}
		})
	})
}

func TestB35CloseEndsLeasesAndWaitersOfBothKinds(t *testing.T) {
	r := newRWRig(t, nil)
	path := r.path
	var leases []*Lease
	for range 3 {
		leases = append(leases, held(t, r.w.RLock))
	}
	writer := held(t, NewRWLock(r.c, path+"-writer").Lock)
	leases = append(leases, writer)
	waiter := r.joins(4, r.w.Lock)
	behind := r.joins(5, r.w.RLock)
	next := r.joins(6, r.another().Lock)
	var works []context.Context
	for _, l := range leases {
		works = append(works, l.Context(r.ctx))
	}
	rule := r.p.on("", 1, hold)
	closed := make(chan error, 1)
	go func() { closed <- r.c.Close() }()
	r.p.await(rule)
	for i, work := range works { // before the deletions are sent
		require.ErrorIs(t, waitFor(t, work), ErrClosed)
		require.ErrorIs(t, leases[i].Err(), ErrClosed)
	}
	for _, a := range []*attempt{waiter, behind} {
		_, err := a.wait()
		require.ErrorIs(t, err, ErrClosed)
	}
	rule.release()
	require.NoError(t, outcome(t, closed))
	for _, l := range leases {
		require.ErrorIs(t, l.Release(), ErrClosed)
	}
	require.NoError(t, next.granted().Release())
	r.queued(0)
	require.Empty(t, children(t, r.raw, path+"-writer"))
}

func TestB36OnEachSideNoAuthIsAnErrorAtOnce(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			ctx, conn, c := within(t, 20*time.Second), raw(t), dial(t, nil)
			line := func(perms int32) (string, locker) {
				path := newPath(t)
				makeParents(t, conn, parent(path))
				_, err := conn.Create(path, nil, 0, zk.WorldACL(perms))
				require.NoError(t, err)
				return path, side.ours(c, path)
			}
			_, m := line(zk.PermAll &^ zk.PermCreate)
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, m = line(zk.PermAll &^ zk.PermRead)
			_, err = m.Lock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, zk.ErrNoAuth)

			path, m := line(zk.PermAll &^ zk.PermWrite) // setData is done without
			l := held(t, m.Lock)
			a := later(t, side.theirs(dial(t, nil), path).Lock)
			eventually(t, "two in line", func() bool { return len(children(t, conn, path)) == 2 })
			require.True(t, a.waiting())
			_, stat, err := conn.Get(l.Check().Path)
			require.NoError(t, err)
			require.EqualValues(t, stat.Czxid, l.Token())
			require.NoError(t, l.Release())
			require.NoError(t, a.granted().Release())

			_, m = line(zk.PermAll &^ zk.PermDelete)
			l = held(t, m.Lock)
			require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
			require.ErrorIs(t, l.Err(), ErrReleased)
		})
	}
}

func TestB49OnEachSideAnEventAfterAReconnectIsNotBelieved(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		holder := held(t, r.rival.Lock)
		a := r.waits(2)
		r.p.drop()
		s, _ := r.c.session()
		eventually(t, "up again", func() bool { up, _ := s.connected(); return up && r.p.countOf("setWatches") == 1 })
		r.p.reset()
		require.NoError(t, holder.Release())
		l := a.granted()
		require.Equal(t, map[string]int{"getChildren2": 1}, r.p.count(), "it listed")
		require.NoError(t, l.Release())
	})
}
