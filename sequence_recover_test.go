package zkrecipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Lost replies, lost connections, lost sessions. The names say the row.

func TestB01JoinThatNeverArrivedIsSentAgain(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.on(opJoin, 1, dropBefore)
		l := held(t, r.m.Lock)
		require.Equal(t, 2, r.p.countOf(opJoin))
		require.NoError(t, l.Release())
		r.queued(0)
	})
}

func TestB02SearchForAJoinIsRepeatedUntilItIsAnswered(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.on(opJoin, 1, dropAfter)
		r.p.on("sync", 1, dropBefore)
		r.p.on("getChildren2", 1, dropAfter)
		r.p.on("getChildren2", 2, dropBefore)
		r.p.on("getData", 1, dropAfter)
		l := held(t, r.m.Lock)
		require.Equal(t, 1, r.p.countOf(opJoin))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB02SearchEndsWithTheSession(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		old := sessionID(r.c)
		r.p.on(opJoin, 1, dropAfter)
		again := r.p.on("sync", 1, hold)
		a := later(t, r.m.Lock)
		r.p.await(again)
		expire(r.p)
		again.release()
		l := a.granted() // in the next session
		require.NotEqual(t, old, sessionID(r.c))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB04APlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		uuid := newUUID()
		r.byHand("_c_" + uuid + "-" + string(r.kind))
		s, _ := r.c.session()
		p, err := lineOf(r.m).recover(s, uuid)
		require.NoError(t, err)
		require.Nil(t, p)
		require.Len(t, r.inLine(), 1, "nor touched")
	})
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

func TestB33CleanUpWaitsForTheConnection(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.rival.Lock)
		a := r.waits(2)
		r.p.refusing(true)
		a.cancel(nil)
		_, err := a.wait() // at once
		require.ErrorIs(t, err, context.Canceled)
		r.queued(2)
		r.p.refusing(false)
		r.queued(1)
		require.NoError(t, l.Release())
	})
}

func TestB53CommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
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
