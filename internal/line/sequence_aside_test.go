package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A line whose counter passes its limit: everybody steps aside and goes on.

func TestB87AFreeLineBeginsAnewBeyondTheLimit(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		last := w.Holds(c)
		require.NoError(t, last.Release())
		for name, lock := range map[string]func(context.Context) (*zkrecipes.Lease, error){"Lock": w.Ours(c, w.Path).Lock, "TryLock": w.Ours(c, w.Path).TryLock} {
			w.AtLimit()
			var l *zkrecipes.Lease
			requests := w.Requests(func() { l = recipetest.Held(t, lock) })
			require.Zero(t, w.Line()[0].Number, name)
			require.Greater(t, l.Token(), last.Token())
			require.Equal(t, 2, requests[recipetest.OpJoin], "%s: %v", name, requests)
			require.Equal(t, 2, requests[recipetest.OpDelete], "%s: %v", name, requests)
			require.NoError(t, l.Release())
			last = l
		}
	})
}

func TestB87ThoseWhoComeBeyondTheLimitWaitUntilTheLineIsEmpty(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other, third := w.Client(nil), w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		holder := w.Excludes(c)
		inLine := w.Waits(other)
		aside := []*harness.Call[*zkrecipes.Lease]{w.Aside(c), w.Aside(other), w.Aside(third), w.Aside(third)}
		_, err := w.Ours(third, w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)

		require.NoError(t, holder.Release())
		l := inLine.Get()
		w.Stands(l)
		synctest.Wait()
		require.Len(t, w.Line(), 1, "those aside wait on")
		for _, a := range aside {
			require.True(t, a.Waiting())
		}
		require.NoError(t, l.Release())
		w.Served(aside...)
		synctest.Wait()
		require.Empty(t, w.Line())
		recipetest.RequireUsable(t, c)
	})
}

// Everybody watches the last member and no line. A wait costs nothing, and a member that
// is not the last wakes nobody.
func TestB87WaitingAsideCostsNothingUntilTheLastMemberGoes(t *testing.T) {
	recipetest.Sides[0].InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		holder := w.Excludes(other)
		last := w.Waits(other)
		a := w.Aside(c)
		var l *zkrecipes.Lease
		requests := w.Requests(func() {
			require.NoError(t, holder.Release())
			l = last.Get()
			time.Sleep(500 * time.Millisecond)
		})
		require.Equal(t, 1, recipetest.Sum(requests), "the release")
		require.NoError(t, l.Release())
		w.Served(a)
	})
}

func TestB87TheLastMembersSessionExpiresWhileOthersAreAside(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		w.Excludes(other)
		aside := []*harness.Call[*zkrecipes.Lease]{w.Aside(c), w.Aside(c), w.Aside(w.Stranger(nil))}
		require.True(t, w.Srv.Expire(recipetest.SessionID(other)))
		w.Served(aside...)
	})
}

func TestB87ASessionThatEndsAsideGoesOnInTheNext(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		holder := w.Excludes(other)
		a := w.Aside(c)
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Len(t, w.Line(), 1)
		require.NoError(t, holder.Release())
		w.Served(a)
	})
}

func TestB87AContextThatEndsAsideLeavesNothingBehind(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		holder := w.Excludes(other)
		for range 3 {
			a := w.Aside(c)
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, zkrecipes.ErrExhausted)
		}
		// At each moment on the way there.
		for after := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Path: w.Path + "*", For: 2 * time.Millisecond, Times: 8})
			_, err := w.Ours(c, w.Path).Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Len(t, w.Line(), 1)
		require.LessOrEqual(t, recipetest.WatchesOf(c), 1, "all share the watch on the holder's place")
		require.NoError(t, holder.Release())
		synctest.Wait()
		require.Empty(t, w.Line())
		require.Zero(t, recipetest.WatchesOf(c))
	})
}

func TestB87PlacesOfOtherLibrariesAreWaitedForAside(t *testing.T) {
	for _, name := range []string{"Curator or go-zookeeper", "kazoo"} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				foreign := w.By
				if name == "kazoo" {
					foreign = "fedcba98765432100123456789abcdef__lock__"
				}
				c := w.Client(nil)
				conn := w.Insider()
				join := func() string {
					place, err := conn.Create(w.Path+"/"+foreign, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					return place
				}
				require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
				first, beyond := join(), join() // other libraries know no limit
				a := w.Aside(c)
				_, err := conn.Set(beyond, []byte("x"), -1)
				require.NoError(t, err)
				synctest.Wait()
				for _, place := range []string{first, beyond} {
					require.True(t, a.Waiting())
					require.NoError(t, conn.Delete(place, -1))
					synctest.Wait()
				}
				w.Served(a)
			})
		})
	}
}

func TestB87ReadersStepAsideToo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		ours, theirs := zkrecipes.NewRWLock(c, w.Path), zkrecipes.NewRWLock(other, w.Path)
		require.NoError(t, theirs.Do(t.Context(), recipetest.Nothing))
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		first, second := recipetest.Held(t, theirs.RLock), recipetest.Held(t, theirs.RLock)
		_, err := ours.TryRLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "only readers hold, but nobody joins them")
		readers := []*harness.Call[*zkrecipes.Lease]{recipetest.Later(t, ours.RLock), recipetest.Later(t, theirs.RLock)}
		synctest.Wait()
		writer := recipetest.Later(t, ours.Lock)
		synctest.Wait()
		require.Len(t, w.Line(), 2)
		require.NoError(t, second.Release())
		synctest.Wait()
		require.True(t, readers[0].Waiting() && readers[1].Waiting() && writer.Waiting())
		require.NoError(t, first.Release())
		(&recipetest.SideWorld{World: w}).Served(append(readers, writer)...)
		require.Empty(t, w.Line())
	})
}

func TestB87AChildThatIsNoPlaceMakesItImpossible(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		conn := w.Bare()
		_, err := conn.Create(w.Path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		holder := w.Excludes(other)
		a := w.Aside(c)
		require.NoError(t, holder.Release())
		_, err = a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		require.ErrorContains(t, err, `"config" stands in it`)
		requests := w.Requests(func() {
			_, err = w.Ours(c, w.Path).Lock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
			_, err = w.Ours(c, w.Path).TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		})
		require.LessOrEqual(t, recipetest.Sum(requests), 12, "they do not try again and again")
		require.Equal(t, []string{"config"}, w.Srv.Children(w.Path))
		require.NoError(t, conn.Delete(w.Path+"/config", -1))
		require.NoError(t, w.Holds(c).Release())
	})
}

func TestB87ALineThatMayNotBeDeletedIsAnError(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		conn := w.OnPath("/locks/line")
		c, other := w.Client(nil), w.Client(nil)
		_, err := conn.SetACL("/locks", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
		require.NoError(t, err)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		holder := w.Excludes(other)
		a := w.Aside(c)
		require.NoError(t, holder.Release())
		_, err = a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		requests := w.Requests(func() {
			_, err = w.Ours(c, w.Path).Lock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			_, err = w.Ours(c, w.Path).TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		})
		require.LessOrEqual(t, recipetest.Sum(requests), 12, "they do not try again and again")
		require.Empty(t, w.Line())
	})
}

func TestB87SomebodysDataNodeIsNotDeleted(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		conn := w.OnPath("/locks/line")
		_, err := conn.Create(w.Path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		c := w.Client(nil)
		w.AtLimit()
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){w.Ours(c, w.Path).Lock, w.Ours(c, w.Path).TryLock} {
			_, err = lock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
			require.ErrorContains(t, err, "holds other data")
		}
		data, stat, err := conn.Get(w.Path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(data))
		require.Zero(t, stat.Version)
		require.Zero(t, stat.NumChildren)
	})
}

// A client that may not write the line's data can still delete the line.
func TestB87ALineThatMayNotBeWrittenBeginsAnew(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		conn := w.OnPath("/locks/line")
		c, other := w.Client(nil), w.Client(nil)
		_, err := conn.SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
		require.NoError(t, err)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1)) // the refused join takes no number
		holder := w.Excludes(other)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		a := w.Aside(c)
		require.NoError(t, holder.Release())
		w.Served(a)
	})
}

// What the line becomes between the listing and the deletion is not deleted.
func TestB87ALineThatChangesBeforeItsDeletionIsNotDeleted(t *testing.T) {
	const pause = 5 * time.Second
	slowly := func(t *testing.T, f func(t *testing.T, w *recipetest.SideWorld, c *zkrecipes.Client, conn *zk.Conn)) {
		recipetest.Sides[0].InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
			c := w.Client(nil)
			conn := w.Bare()
			w.AtLimit()
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpDelete, Path: w.Path, For: pause})
			f(t, w, c, conn)
			require.Equal(t, 1, w.Plan.Fired()["delay before"], "%v", w.Plan.Fired())
		})
	}
	t.Run("another library joins", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *recipetest.SideWorld, c *zkrecipes.Client, conn *zk.Conn) {
			a := w.Waits(c)
			place, err := conn.Create(w.Path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			time.Sleep(2 * pause)
			require.True(t, a.Waiting())
			require.Contains(t, w.Srv.Children("/"), "line")
			require.NoError(t, conn.Delete(place, -1))
			w.Served(a)
		})
	})
	t.Run("another client begins it anew", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *recipetest.SideWorld, c *zkrecipes.Client, conn *zk.Conn) {
			a := w.Waits(c)
			l := w.Excludes(w.Stranger(nil))
			require.Zero(t, w.Line()[0].Number)
			time.Sleep(2 * pause)
			require.True(t, a.Waiting())
			require.Len(t, w.Line(), 2, "it has joined the new line")
			require.NoError(t, l.Release())
			w.Served(a)
		})
	})
	t.Run("somebody puts data there", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *recipetest.SideWorld, c *zkrecipes.Client, conn *zk.Conn) {
			a := w.Waits(c)
			require.NoError(t, conn.Delete(w.Path, -1))
			_, err := conn.Create(w.Path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			time.Sleep(2 * pause)
			w.Served(a)
			data, _, err := conn.Get(w.Path)
			require.NoError(t, err)
			require.Equal(t, "precious", string(data))
		})
	})
}

// An operator deletes the line while others are aside, and somebody holds in the new one.
// A new line that is never empty must not starve those aside.
func TestB87ANewLineIsJoinedAtOnce(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
		holder := w.Excludes(other)
		conn := w.Bare()
		a := w.Aside(c)
		// The client learns of the deletion only when the new line stands.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: w.Path, For: time.Second})
		require.NoError(t, conn.Delete(holder.Check().Path, -1))
		require.NoError(t, conn.Delete(w.Path, -1))
		again := w.Excludes(w.Stranger(nil))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Len(t, w.Line(), 2)
		require.NoError(t, again.Release())
		w.Served(a)
	})
}

func TestB87ReplyToTheDeletionOfTheLineIsLost(t *testing.T) {
	for when, after := range map[string]bool{"before": false, "after": true} {
		t.Run(when, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				w.AtLimit()
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpDelete, Path: w.Path})
				l := w.Holds(c)
				require.Zero(t, w.Line()[0].Number)
				require.NoError(t, l.Release())
				require.Equal(t, 1, w.Plan.Fired()["drop "+when])
			})
		})
	}
}

// A place beyond the limit stands for a moment only, and never holds.
func TestB87AContenderBeyondTheLimitHoldsNothing(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		w.AtLimit()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpDelete, Path: w.Path + "/*", For: time.Second})
		a := w.Waits(c)
		cs, err := w.Ours(other, w.Path).Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.False(t, cs[0].Held)
		time.Sleep(2 * time.Second)
		w.Served(a)
	})
}
