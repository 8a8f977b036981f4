package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A line whose counter passes its limit: everybody steps aside and goes on.

const opDelete = "multi(delete)" // of a place without a signal, or of a line

// atLimit sets the line's counter so that the next place is beyond the limit.
func (w *sideWorld) atLimit() {
	w.t.Helper()
	require.NoError(w.t, w.srv.SetCounter(w.path, line.MaxNumber+1))
}

// aside calls Lock in c, and requires that the call waits and leaves the line as it was.
func (w *sideWorld) aside(c *Client) *harness.Call[*Lease] {
	w.t.Helper()
	before := w.line()
	a := w.waits(c)
	require.True(w.t, a.Waiting())
	require.Equal(w.t, before, w.line(), "no place is left")
	return a
}

// served requires that the calls get the lock, one after the other where they exclude
// each other, with numbers from the line's beginning. All leases are released.
func (w *sideWorld) served(calls ...*harness.Call[*Lease]) {
	w.t.Helper()
	for len(calls) > 0 {
		synctest.Wait()
		var waiting []*harness.Call[*Lease]
		for _, a := range calls {
			if a.Waiting() {
				waiting = append(waiting, a)
				continue
			}
			l := a.Get()
			w.stands(l)
			m, _ := line.ParsePlaceName(l.Check().Path[len(w.path)+1:], line.LockKinds)
			require.Less(w.t, m.Number, int32(100))
			require.NoError(w.t, l.Release())
		}
		require.Less(w.t, len(waiting), len(calls), "nobody is granted")
		calls = waiting
	}
}

// onPath uses another line, below a znode of its own.
func (w *sideWorld) onPath(path string) *zk.Conn {
	w.t.Helper()
	conn := w.bare()
	_, err := conn.Create(zkconn.Parent(path), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
	w.path = path
	return conn
}

func TestB87AFreeLineBeginsAnewBeyondTheLimit(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		last := w.holds(c)
		require.NoError(t, last.Release())
		for name, lock := range map[string]func(context.Context) (*Lease, error){"Lock": w.ours(c, w.path).Lock, "TryLock": w.ours(c, w.path).TryLock} {
			w.atLimit()
			var l *Lease
			requests := w.requests(func() { l = held(t, lock) })
			require.Zero(t, w.line()[0].Number, name)
			require.Greater(t, l.Token(), last.Token())
			require.Equal(t, 2, requests[opJoin], "%s: %v", name, requests)
			require.Equal(t, 2, requests[opDelete], "%s: %v", name, requests)
			require.NoError(t, l.Release())
			last = l
		}
	})
}

func TestB87ThoseWhoComeBeyondTheLimitWaitUntilTheLineIsEmpty(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other, third := w.client(nil), w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber-1))
		holder := w.excludes(c)
		inLine := w.waits(other)
		aside := []*harness.Call[*Lease]{w.aside(c), w.aside(other), w.aside(third), w.aside(third)}
		_, err := w.ours(third, w.path).TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)

		require.NoError(t, holder.Release())
		l := inLine.Get()
		w.stands(l)
		synctest.Wait()
		require.Len(t, w.line(), 1, "those aside wait on")
		for _, a := range aside {
			require.True(t, a.Waiting())
		}
		require.NoError(t, l.Release())
		w.served(aside...)
		synctest.Wait()
		require.Empty(t, w.line())
		requireUsable(t, c)
	})
}

// Everybody watches the last member and no line. A wait costs nothing, and a member that
// is not the last wakes nobody.
func TestB87WaitingAsideCostsNothingUntilTheLastMemberGoes(t *testing.T) {
	sides[0].inBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber-1))
		holder := w.excludes(other)
		last := w.waits(other)
		a := w.aside(c)
		var l *Lease
		requests := w.requests(func() {
			require.NoError(t, holder.Release())
			l = last.Get()
			time.Sleep(500 * time.Millisecond)
		})
		require.Equal(t, map[string]int{opRelease: 1}, requests)
		require.NoError(t, l.Release())
		w.served(a)
	})
}

func TestB87TheLastMembersSessionExpiresWhileOthersAreAside(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		w.excludes(other)
		aside := []*harness.Call[*Lease]{w.aside(c), w.aside(c), w.aside(w.stranger(nil))}
		require.True(t, w.srv.Expire(sessionID(other)))
		w.served(aside...)
	})
}

func TestB87ASessionThatEndsAsideGoesOnInTheNext(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		holder := w.excludes(other)
		a := w.aside(c)
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Len(t, w.line(), 1)
		require.NoError(t, holder.Release())
		w.served(a)
	})
}

func TestB87AContextThatEndsAsideLeavesNothingBehind(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		holder := w.excludes(other)
		for range 3 {
			a := w.aside(c)
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrExhausted)
		}
		// At each moment on the way there.
		for after := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Path: w.path + "*", For: 2 * time.Millisecond, Times: 8})
			_, err := w.ours(c, w.path).Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Len(t, w.line(), 1)
		require.LessOrEqual(t, watchesOf(c), 1, "all share the watch on the holder's place")
		require.NoError(t, holder.Release())
		synctest.Wait()
		require.Empty(t, w.line())
		require.Zero(t, watchesOf(c))
	})
}

func TestB87PlacesOfOtherLibrariesAreWaitedForAside(t *testing.T) {
	for _, name := range []string{"Curator or go-zookeeper", "kazoo"} {
		t.Run(name, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				foreign := w.by
				if name == "kazoo" {
					foreign = "fedcba98765432100123456789abcdef__lock__"
				}
				c := w.client(nil)
				conn := w.insider()
				join := func() string {
					place, err := conn.Create(w.path+"/"+foreign, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					return place
				}
				require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
				first, beyond := join(), join() // other libraries know no limit
				a := w.aside(c)
				_, err := conn.Set(beyond, []byte("x"), -1)
				require.NoError(t, err)
				synctest.Wait()
				for _, place := range []string{first, beyond} {
					require.True(t, a.Waiting())
					require.NoError(t, conn.Delete(place, -1))
					synctest.Wait()
				}
				w.served(a)
			})
		})
	}
}

func TestB87ReadersStepAsideToo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.stranger(nil), w.stranger(nil)
		ours, theirs := NewRWLock(c, w.path), NewRWLock(other, w.path)
		require.NoError(t, theirs.Do(t.Context(), nothing))
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber-1))
		first, second := held(t, theirs.RLock), held(t, theirs.RLock)
		_, err := ours.TryRLock(t.Context())
		require.ErrorIs(t, err, ErrLocked, "only readers hold, but nobody joins them")
		readers := []*harness.Call[*Lease]{later(t, ours.RLock), later(t, theirs.RLock)}
		synctest.Wait()
		writer := later(t, ours.Lock)
		synctest.Wait()
		require.Len(t, w.line(), 2)
		require.NoError(t, second.Release())
		synctest.Wait()
		require.True(t, readers[0].Waiting() && readers[1].Waiting() && writer.Waiting())
		require.NoError(t, first.Release())
		(&sideWorld{world: w}).served(append(readers, writer)...)
		require.Empty(t, w.line())
	})
}

func TestB87AChildThatIsNoPlaceMakesItImpossible(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		conn := w.bare()
		_, err := conn.Create(w.path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		holder := w.excludes(other)
		a := w.aside(c)
		require.NoError(t, holder.Release())
		_, err = a.Wait()
		require.ErrorIs(t, err, ErrExhausted)
		require.ErrorContains(t, err, `"config" stands in it`)
		requests := w.requests(func() {
			_, err = w.ours(c, w.path).Lock(t.Context())
			require.ErrorIs(t, err, ErrExhausted)
			_, err = w.ours(c, w.path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrExhausted)
		})
		require.Equal(t, map[string]int{opJoin: 2, "getData": 2, opDelete: 2, "getChildren2": 3}, requests)
		require.Equal(t, []string{"config"}, w.srv.Children(w.path))
		require.NoError(t, conn.Delete(w.path+"/config", -1))
		require.NoError(t, w.holds(c).Release())
	})
}

func TestB87ALineThatMayNotBeDeletedIsAnError(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		conn := w.onPath("/locks/line")
		c, other := w.client(nil), w.client(nil)
		_, err := conn.SetACL("/locks", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
		require.NoError(t, err)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		holder := w.excludes(other)
		a := w.aside(c)
		require.NoError(t, holder.Release())
		_, err = a.Wait()
		require.ErrorIs(t, err, ErrExhausted)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		requests := w.requests(func() {
			_, err = w.ours(c, w.path).Lock(t.Context())
			require.ErrorIs(t, err, ErrExhausted)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = w.ours(c, w.path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrExhausted)
		})
		require.Equal(t, map[string]int{opJoin: 2, "getData": 2, opDelete: 4, "getChildren2": 3}, requests)
		require.Empty(t, w.line())
	})
}

func TestB87SomebodysDataNodeIsNotDeleted(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		conn := w.onPath("/locks/line")
		_, err := conn.Create(w.path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		c := w.client(nil)
		w.atLimit()
		for _, lock := range []func(context.Context) (*Lease, error){w.ours(c, w.path).Lock, w.ours(c, w.path).TryLock} {
			_, err = lock(t.Context())
			require.ErrorIs(t, err, ErrExhausted)
			require.ErrorContains(t, err, "holds other data")
		}
		data, stat, err := conn.Get(w.path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(data))
		require.Zero(t, stat.Version)
		require.Zero(t, stat.NumChildren)
	})
}

// A client that may not write the line's data can still delete the line.
func TestB87ALineThatMayNotBeWrittenBeginsAnew(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		conn := w.onPath("/locks/line")
		c, other := w.client(nil), w.client(nil)
		_, err := conn.SetACL(w.path, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
		require.NoError(t, err)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber-1)) // the refused join takes no number
		holder := w.excludes(other)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber+1))
		a := w.aside(c)
		require.NoError(t, holder.Release())
		w.served(a)
	})
}

// What the line becomes between the listing and the deletion is not deleted.
func TestB87ALineThatChangesBeforeItsDeletionIsNotDeleted(t *testing.T) {
	const pause = 5 * time.Second
	slowly := func(t *testing.T, f func(t *testing.T, w *sideWorld, c *Client, conn *zk.Conn)) {
		sides[0].inBubble(t, func(t *testing.T, w *sideWorld) {
			c := w.client(nil)
			conn := w.bare()
			w.atLimit()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opDelete, Path: w.path, For: pause})
			f(t, w, c, conn)
			require.Equal(t, 1, w.plan.Fired()["delay before"], "%v", w.plan.Fired())
		})
	}
	t.Run("another library joins", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *sideWorld, c *Client, conn *zk.Conn) {
			a := w.waits(c)
			place, err := conn.Create(w.path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			time.Sleep(2 * pause)
			require.True(t, a.Waiting())
			require.Contains(t, w.srv.Children("/"), "line")
			require.NoError(t, conn.Delete(place, -1))
			w.served(a)
		})
	})
	t.Run("another client begins it anew", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *sideWorld, c *Client, conn *zk.Conn) {
			a := w.waits(c)
			l := w.excludes(w.stranger(nil))
			require.Zero(t, w.line()[0].Number)
			time.Sleep(2 * pause)
			require.True(t, a.Waiting())
			require.Len(t, w.line(), 2, "it has joined the new line")
			require.NoError(t, l.Release())
			w.served(a)
		})
	})
	t.Run("somebody puts data there", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *sideWorld, c *Client, conn *zk.Conn) {
			a := w.waits(c)
			require.NoError(t, conn.Delete(w.path, -1))
			_, err := conn.Create(w.path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			time.Sleep(2 * pause)
			w.served(a)
			data, _, err := conn.Get(w.path)
			require.NoError(t, err)
			require.Equal(t, "precious", string(data))
		})
	})
}

// An operator deletes the line while others are aside, and somebody holds in the new one.
// A new line that is never empty must not starve those aside.
func TestB87ANewLineIsJoinedAtOnce(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber))
		holder := w.excludes(other)
		conn := w.bare()
		a := w.aside(c)
		// The client learns of the deletion only when the new line stands.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: w.path, For: time.Second})
		require.NoError(t, conn.Delete(holder.Check().Path, -1))
		require.NoError(t, conn.Delete(w.path, -1))
		again := w.excludes(w.stranger(nil))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Len(t, w.line(), 2)
		require.NoError(t, again.Release())
		w.served(a)
	})
}

func TestB87ReplyToTheDeletionOfTheLineIsLost(t *testing.T) {
	for when, after := range map[string]bool{"before": false, "after": true} {
		t.Run(when, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				c := w.client(nil)
				w.atLimit()
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opDelete, Path: w.path})
				l := w.holds(c)
				require.Zero(t, w.line()[0].Number)
				require.NoError(t, l.Release())
				require.Equal(t, 1, w.plan.Fired()["drop "+when])
			})
		})
	}
}

// A place beyond the limit stands for a moment only, and never holds.
func TestB87AContenderBeyondTheLimitHoldsNothing(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		w.atLimit()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opDelete, Path: w.path + "/*", For: time.Second})
		a := w.waits(c)
		cs, err := w.ours(other, w.path).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.False(t, cs[0].Held)
		time.Sleep(2 * time.Second)
		w.served(a)
	})
}
