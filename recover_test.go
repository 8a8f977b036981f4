package zkrecipes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Lost replies, lost connections, lost sessions. The names say the row.

func TestB01JoinWhoseReplyIsLostIsFound(t *testing.T) {
	for name, foreign := range map[string]bool{"alone": false, "behind another": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			var ahead string
			if foreign {
				ahead = r.byHand("lock-")
			}
			r.p.reset()
			rule := r.p.on(opJoin, 1, dropAfter)
			a := lockLater(t, r.m)
			r.p.await(rule)
			if foreign {
				r.queued(2)
				eventually(t, "asleep", func() bool { return r.p.countOf("getData") == 2 && r.c.idle() })
				require.NoError(t, r.raw.Delete(ahead, -1))
			}
			l := a.granted()
			require.Len(t, children(t, r.raw, r.path), 1, "one place only")
			require.Equal(t, 1, r.p.countOf(opJoin))
			require.Equal(t, 1, r.p.countOf("sync"))
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.EqualValues(t, stat.Czxid, l.Token())
			require.NoError(t, l.Release())
			r.queued(0)
		})
	}
}

func TestB01JoinThatNeverArrivedIsSentAgain(t *testing.T) {
	r := newRig(t, nil)
	r.p.reset()
	r.p.on(opJoin, 1, dropBefore)
	l := r.lock()
	require.Equal(t, 2, r.p.countOf(opJoin))
	require.NoError(t, l.Release())
	r.queued(0)
}

func TestB02SearchForAJoinIsRepeatedUntilItIsAnswered(t *testing.T) {
	r := newRig(t, nil)
	r.p.reset()
	r.p.on(opJoin, 1, dropAfter)
	r.p.on("sync", 1, dropBefore)
	r.p.on("getChildren2", 1, dropAfter)
	r.p.on("getChildren2", 2, dropBefore)
	r.p.on("getData", 1, dropAfter)
	l := r.lock()
	require.Equal(t, 1, r.p.countOf(opJoin))
	require.Len(t, children(t, r.raw, r.path), 1)
	require.NoError(t, l.Release())
}

func TestB02SearchEndsWithTheSession(t *testing.T) {
	r := newRig(t, nil)
	r.p.on(opJoin, 1, dropAfter)
	again := r.p.on("sync", 1, hold)
	a := lockLater(t, r.m)
	r.p.await(again)
	r.p.expire()
	again.release()
	l := a.granted() // in the next session
	require.Len(t, children(t, r.raw, r.path), 1)
	require.NoError(t, l.Release())
}

func TestB04APlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	r := newRig(t, nil)
	uuid := newUUID()
	stranger := r.byHand("_c_" + uuid + "-lock-")
	s, _ := r.c.session()
	p, err := r.m.line.recover(s, uuid)
	require.NoError(t, err)
	require.Nil(t, p)
	require.NoError(t, r.raw.Delete(stranger, -1))
}

func TestB06ReleaseGoesOnInTheBackground(t *testing.T) {
	r := newRig(t, nil)
	rule := r.p.on(opRelease, 1, dropBefore)
	l := r.lock()
	require.NoError(t, l.Release())
	r.p.await(rule)
	require.ErrorIs(t, l.Err(), ErrReleased, "not held any more, whatever stands there")
	r.queued(0)
}

func TestB07ReleaseWhoseReplyIsLostIsDone(t *testing.T) {
	r := newRig(t, nil)
	next := NewMutex(dial(t, nil), r.path)
	for range 3 {
		r.p.reset()
		l := r.lock()
		a := lockLater(t, next)
		r.queued(2)
		rule := r.p.on(opRelease, 1, dropAfter)
		require.NoError(t, l.Release())
		r.p.await(rule)
		b := a.granted()
		eventually(t, "sent again", func() bool { return r.p.countOf(opRelease) == 2 && r.c.idle() })
		require.NoError(t, b.Err(), "the second one touches nobody")
		_, err := b.Commit(r.ctx)
		require.NoError(t, err)
		require.NoError(t, b.Release())
		r.p.off(rule)
	}
}

func TestB08ReleaseWhileDisconnectedReturnsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	r.p.refusing(true)
	s, _ := r.c.session()
	eventually(t, "down", func() bool { up, _ := s.connected(); return !up })
	began := time.Now()
	require.NoError(t, l.Release())
	require.Less(t, time.Since(began), time.Second)
	require.ErrorIs(t, l.Err(), ErrReleased)
	r.queued(1)
	r.p.refusing(false)
	r.queued(0)
}

func TestB09ExpiryWhileHoldingEndsTheLease(t *testing.T) {
	var e events
	r := newRig(t, &Options{Trace: e.trace()})
	l := r.lock()
	ctx := l.Context(r.ctx)
	r.p.expire()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrLost)
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
	require.NoError(t, NewMutex(r.c, r.path+"-other").Do(r.ctx, nothing))
	require.ErrorIs(t, l.Err(), ErrLost)
	r.queued(0)
}

func TestB10ExpiryWhileWaitingJoinsAgainAtTheTail(t *testing.T) {
	var e events
	r := newRig(t, &Options{Trace: e.trace()})
	holder := lockOn(t, NewMutex(dial(t, nil), r.path))
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(2)
	r.asleep(1)
	behind := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(3)
	r.p.expire()
	eventually(t, "joined again", func() bool { return e.count("queued") == 2 })
	r.queued(3)
	require.True(t, a.waiting())
	require.NoError(t, holder.Release())
	l := behind.granted() // is before it now
	require.True(t, a.waiting())
	require.NoError(t, l.Release())
	l = a.granted()
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
}

func TestB10ExpiryThatIsHeardAsADeletionIsNoEviction(t *testing.T) {
	// A server that expires a session whose connection it serves can send the
	// events of its own znodes' deletion before it closes.
	r := newRig(t, nil)
	holder := lockOn(t, NewMutex(dial(t, nil), r.path))
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(2)
	r.asleep(1)
	s, _ := r.c.session()
	r.p.expire()
	eventually(t, "next session", func() bool { next, _ := r.c.session(); return next != s })
	r.queued(2)
	require.NoError(t, holder.Release())
	require.NoError(t, a.granted().Release())
}

func TestB12ReleaseAfterExpiryTouchesNobody(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	next := lockLater(t, NewMutex(dial(t, nil), r.path))
	r.queued(2)
	r.p.expire()
	b := next.granted()
	<-l.Context(r.ctx).Done()
	require.ErrorIs(t, l.Release(), ErrLost)
	require.ErrorIs(t, l.Release(), ErrLost)
	_, err := b.Commit(r.ctx)
	require.NoError(t, err)
	require.Greater(t, b.Token(), l.Token())
	require.NoError(t, b.Release())
}

func TestB13ReleasingTwiceIsReleasingOnce(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
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
	require.Equal(t, map[string]int{opRelease: 1}, r.p.count())
}

func TestB15InstantsAreMonotonic(t *testing.T) {
	// A wall clock that jumps has no effect on what has a monotonic reading, and
	// time.Time shows whether it has one.
	r := newRig(t, nil)
	l := r.lock()
	require.Contains(t, l.ValidUntil().String(), " m=+")
	s, _ := r.c.session()
	r.p.drop()
	eventually(t, "down", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Contains(t, s.upSince.String(), " m=+")
		return !s.up
	})
	require.NoError(t, l.Release())
}

func TestB21PredecessorGoneWhileDisconnected(t *testing.T) {
	r := newRig(t, nil)
	ahead := r.byHand("lock-")
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(2)
	r.asleep(1)
	r.p.refusing(true)
	require.NoError(t, r.raw.Delete(ahead, -1))
	r.p.reset()
	r.p.refusing(false)
	l := a.granted()
	require.Equal(t, map[string]int{"setWatches": 1, "getChildren2": 1}, r.p.count())
	require.NoError(t, l.Release())
}

func TestB33CleanUpWaitsForTheConnection(t *testing.T) {
	r := newRig(t, nil)
	l := lockOn(t, NewMutex(dial(t, nil), r.path))
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(2)
	r.asleep(1)
	r.p.refusing(true)
	a.cancel(nil)
	_, err := a.wait() // at once
	require.ErrorIs(t, err, context.Canceled)
	r.queued(2)
	r.p.refusing(false)
	r.queued(1)
	require.NoError(t, l.Release())
}

func TestB49AnEventAfterAReconnectIsNotBelieved(t *testing.T) {
	r := newRig(t, nil)
	holder := lockOn(t, NewMutex(dial(t, nil), r.path))
	r.p.reset()
	a := lockLater(t, r.m)
	r.queued(2)
	r.asleep(1)
	r.p.drop()
	s, _ := r.c.session()
	eventually(t, "up again", func() bool { up, _ := s.connected(); return up && r.p.countOf("setWatches") == 1 })
	r.p.reset()
	require.NoError(t, holder.Release())
	l := a.granted()
	require.Equal(t, map[string]int{"getChildren2": 1}, r.p.count(), "it listed")
	require.NoError(t, l.Release())
}

func TestB53CommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	const op = "multi(check,create)"
	for name, what := range map[string]action{"applied": dropAfter, "not applied": dropBefore} {
		t.Run(name, func(t *testing.T) {
			rule := r.p.on(op, 1, what)
			defer r.p.off(rule)
			path := r.path + "/" + string(name[0])
			_, err := l.Commit(r.ctx, &zk.CreateRequest{Path: path})
			require.ErrorIs(t, err, ErrUncertain)
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			_, _, err = l.Get(r.ctx, path)
			if what == dropAfter {
				require.NoError(t, err)
				require.NoError(t, r.raw.Delete(path, -1))
			} else {
				require.ErrorIs(t, err, zk.ErrNoNode)
			}
			require.NoError(t, l.Err(), "a short disconnect ends nothing")
		})
	}
	t.Run("ctx ends", func(t *testing.T) {
		rule := r.p.on(op, 1, hold)
		defer r.p.off(rule)
		ctx, cancel := context.WithCancelCause(r.ctx)
		why := errors.New("enough")
		go func() {
			r.p.await(rule)
			cancel(why)
		}()
		_, err := l.Commit(ctx, &zk.CreateRequest{Path: r.path + "/c"})
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, why)
		rule.release()
		eventually(t, "applied", func() bool { ok, _, _ := r.raw.Exists(r.path + "/c"); return ok })
		require.NoError(t, r.raw.Delete(r.path+"/c", -1))
	})
	require.NoError(t, l.Release())
}

// A cancelled Lock leaves nothing, wherever the cancellation meets it.
func TestB32CancellingAtEveryStep(t *testing.T) {
	steps := []struct {
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
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			r := newRig(t, nil)
			want := 0
			if step.blocked {
				defer r.raw.Delete(r.byHand("lock-"), -1)
				want = 1
			}
			rule := r.p.on(step.op, 1, step.at)
			a := lockLater(t, r.m)
			r.p.await(rule)
			a.cancel(nil)
			_, err := a.wait() // while nothing is answered
			require.ErrorIs(t, err, context.Canceled)
			rule.release()
			eventually(t, "idle", r.c.idle)
			r.queued(want)
			require.LessOrEqual(t, watchesOf(r.c), want)
		})
	}
	t.Run("before it is sent", func(t *testing.T) {
		r := newRig(t, nil)
		r.p.reset()
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		_, err := r.m.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.m.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, r.p.count())
	})
	t.Run("racing the grant", func(t *testing.T) {
		r := newRig(t, nil)
		other := NewMutex(dial(t, nil), r.path)
		held := 0
		for range 100 {
			l := lockOn(t, other)
			a := lockLater(t, r.m)
			r.queued(2)
			go a.cancel(nil)
			require.NoError(t, l.Release())
			if l, err := a.wait(); err == nil {
				held++
				_, err := l.Commit(r.ctx)
				require.NoError(t, err)
				require.NoError(t, l.Release())
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			r.queued(0)
		}
		t.Logf("held %d of 100", held)
	})
}

func watchesOf(c *Client) int {
	s, _ := c.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

func TestB36NoAuthIsAnErrorAtOnce(t *testing.T) {
	r := newRig(t, nil)
	mine := zk.DigestACL(zk.PermAll, "owner", "x")
	world := func(perms int32) []zk.ACL { return append(zk.WorldACL(perms), mine...) }
	admin := raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	line := func(t *testing.T, perms int32) *Mutex {
		path := newPath(t)
		makeParents(t, admin, parent(path))
		_, err := admin.Create(path, nil, 0, world(perms))
		require.NoError(t, err)
		return NewMutex(r.c, path)
	}
	t.Run("create", func(t *testing.T) {
		m := line(t, zk.PermRead|zk.PermWrite|zk.PermDelete)
		_, err := m.Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "zkrecipes: lock "+m.line.path)
	})
	t.Run("create of the line", func(t *testing.T) {
		m := line(t, zk.PermRead)
		_, err := NewMutex(r.c, m.line.path+"/below").Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
	t.Run("list", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermRead)
		_, err := m.Lock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = m.TryLock(r.ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
	t.Run("setData is done without", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermWrite)
		l := lockOn(t, m)
		a := lockLater(t, NewMutex(dial(t, nil), m.line.path))
		eventually(t, "two in line", func() bool { return len(children(t, r.raw, m.line.path)) == 2 })
		require.True(t, a.waiting())
		_, stat, err := r.raw.Get(l.Check().Path)
		require.NoError(t, err)
		require.EqualValues(t, stat.Czxid, l.Token())
		require.NoError(t, l.Release())
		require.NoError(t, a.granted().Release())
		data, _, err := r.raw.Get(m.line.path)
		require.NoError(t, err)
		require.Empty(t, data)
	})
	t.Run("delete", func(t *testing.T) {
		m := line(t, zk.PermAll&^zk.PermDelete)
		c := dial(t, nil)
		l := lockOn(t, NewMutex(c, m.line.path))
		require.ErrorIs(t, l.Release(), zk.ErrNoAuth)
		require.ErrorIs(t, l.Err(), ErrReleased)
		require.NotEmpty(t, children(t, r.raw, m.line.path))
		require.NoError(t, c.Close()) // the session takes the place with it
		require.Empty(t, children(t, r.raw, m.line.path))
	})
}

// Close, in each state.
func TestB35CloseEndsLeasesAndWaiters(t *testing.T) {
	t.Run("connected", func(t *testing.T) {
		r := newRig(t, nil)
		l := r.lock()
		ctx := l.Context(r.ctx)
		waiter := lockLater(t, r.m)
		r.queued(2)
		next := lockLater(t, NewMutex(dial(t, nil), r.path))
		r.queued(3)
		// The contexts end before the deletion is sent.
		rule := r.p.on(opRelease, 1, hold)
		closed := make(chan error, 2)
		for range 2 { // twice at once
			go func() { closed <- r.c.Close() }()
		}
		r.p.await(rule)
		require.ErrorIs(t, context.Cause(ctx), ErrClosed)
		require.ErrorIs(t, l.Err(), ErrClosed)
		_, err := waiter.wait()
		require.ErrorIs(t, err, ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
		rule.release()
		require.NoError(t, <-closed)
		require.NoError(t, <-closed)
		require.NoError(t, next.granted().Release())
		require.ErrorIs(t, l.Release(), ErrClosed)
		_, err = r.m.Lock(r.ctx)
		require.ErrorIs(t, err, ErrClosed)
		_, err = r.m.TryLock(r.ctx)
		require.ErrorIs(t, err, ErrClosed)
		_, err = r.m.Contenders(r.ctx)
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.Commit(r.ctx)
		require.ErrorIs(t, err, ErrClosed)
		r.queued(0)
	})
	t.Run("disconnected", func(t *testing.T) {
		server := ownServer(t, zkserver.Config{})
		p := newProxy(t, server)
		c := dialTo(t, []string{p.addr()}, &Options{SessionTimeout: time.Second})
		m := NewMutex(c, "/lock")
		l := lockOn(t, m)
		waiter := lockLater(t, m)
		p.refusing(true)
		s, _ := c.session()
		eventually(t, "down", func() bool { up, _ := s.connected(); return !up })
		began := time.Now()
		err := c.Close()
		require.Less(t, time.Since(began), 3*time.Second) // milliseconds, as a rule
		require.ErrorContains(t, err, "left to time out")
		require.ErrorIs(t, l.Err(), ErrClosed)
		_, err = waiter.wait()
		require.ErrorIs(t, err, ErrClosed)
		// The server ends the session by itself.
		require.NoError(t, NewMutex(dialTo(t, []string{server}, nil), "/lock").Do(within(t, 10*time.Second), nothing))
	})
	t.Run("a server that does not answer", func(t *testing.T) {
		r := newRig(t, &Options{SessionTimeout: 4 * time.Second})
		l := r.lock()
		r.p.stall()
		began := time.Now()
		require.Error(t, r.c.Close())
		require.Less(t, time.Since(began), 8*time.Second)
		require.ErrorIs(t, l.Err(), ErrClosed)
	})
}
