package line_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a line's sequence counter. There ZooKeeper assigns the same number again
// and again, and negative ones to creates in flight together.

func TestB28NumbersUpToTheLimitAreGranted(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		for _, number := range []int32{line.MaxNumber - 1, line.MaxNumber, 0, 1} {
			l := w.Holds(c)
			require.Equal(t, number, w.Line()[0].Number)
			require.NoError(t, l.Release())
		}
	})
}

func TestB28TheLastNumberIsGivenAgainAndAgainAndNeverGranted(t *testing.T) {
	var names []string
	record := zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
			names = append(names, ch.Path[len("/line/"):])
		}
	})
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		l := w.Excludes(c) // joined before the counter ends
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32-1))
		names = nil
		var aside []*harness.Call[*zkrecipes.Lease]
		for range 4 {
			aside = append(aside, w.Aside(c), w.Aside(other))
			_, err := w.Ours(c, w.Path).TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		}
		numbers := map[int32]int{}
		for _, m := range placename.ParseAll(names, placename.LockKinds) {
			numbers[m.Number]++
		}
		require.Equal(t, map[int32]int{math.MaxInt32 - 1: 1, math.MaxInt32: 7}, numbers, "TryLock does not join")
		w.Stands(l)
		require.NoError(t, l.Release())
		w.Served(aside...)
		require.Empty(t, w.Line())
	}, record)
}

func TestB28NegativeNumbersAreNeverGranted(t *testing.T) {
	const joins = 20
	negative := 0
	record := zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
			if m, ok := placename.Parse(ch.Path[len("/line/"):], placename.LockKinds); ok && m.Number < 0 {
				negative++
			}
		}
	})
	for name, held := range map[string]bool{"free": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				negative = 0
				c := w.Client(nil)
				var holder *zkrecipes.Lease
				if held {
					holder = w.Excludes(w.Client(nil))
				}
				require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
				// The joins queue up behind the first one, and the server prepares them
				// together.
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
				var calls []*harness.Call[*zkrecipes.Lease]
				for range joins {
					calls = append(calls, recipetest.Later(t, w.Ours(c, w.Path).Lock))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.NotZero(t, negative)
				if held {
					require.Len(t, w.Line(), 1)
					w.Stands(holder)
					_, err := holder.Commit(t.Context())
					require.NoError(t, err)
					require.NoError(t, holder.Release())
				}
				w.Served(calls...)
				require.Empty(t, w.Line())
			}, record)
		})
	}
}

func TestB28AJoinBeyondTheLimitWhoseReplyIsLostIsNotGranted(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
		w.Plan.Add(
			zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin},
			zktest.Fault{Do: zktest.Drop, Op: recipetest.OpDelete},
		)
		l := w.Holds(c)
		require.Len(t, w.Line(), 1)
		require.Zero(t, w.Line()[0].Number)
		require.NoError(t, l.Release())
		require.Equal(t, map[string]int{"drop after": 1, "drop before": 1}, w.Plan.Fired())
	})
}

// The caller has left before the reply comes: the background gives the place up.
func TestB28AJoinBeyondTheLimitWhoseCallerHasLeftLeavesNoPlace(t *testing.T) {
	for name, lost := range map[string]bool{"reply is late": false, "reply is lost": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: recipetest.OpJoin, For: time.Second})
				a := w.Waits(c)
				a.Cancel(nil)
				_, err := a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.Len(t, w.Line(), 1)
				if lost {
					require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Empty(t, w.Line())
				require.NoError(t, w.Holds(c).Release())
			})
		})
	}
}

func TestB28AnExhaustedPlaceThatCannotBeDeletedIsAnError(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	line.SettingsOf(recipetest.Core(r.C)).LastNumber = 0
	_, err := r.Raw.SetACL(r.Path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	require.NoError(t, err)
	_, err = r.M.Lock(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrExhausted)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}
